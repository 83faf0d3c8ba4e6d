/** The settings of hey-api: an int64 is a bigint, and responses are transformed to it. */
export default {
  input: '../../openapi.yaml',
  output: { path: 'generated/hey-api', module: { extension: '.ts' } },
  plugins: ['@hey-api/client-fetch', '@hey-api/transformers', { name: '@hey-api/sdk', transformer: true }],
};
