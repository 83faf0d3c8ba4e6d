/** The settings of orval: an int64 is a bigint, and orval.ts sends the requests. */
export default {
  store: {
    input: '../../openapi.yaml',
    output: {
      target: 'generated/orval.ts',
      client: 'fetch',
      override: { useBigInt: true, mutator: { path: 'orval-call.ts', name: 'call' } },
    },
  },
};
