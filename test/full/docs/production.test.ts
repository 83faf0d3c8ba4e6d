/** Tests the settings that docs/production.md tells an operator to write. */
import { parseEnv } from 'node:util';
import { expect, test } from 'vitest';
import { readConfig } from '../../../src/config.ts';
import { imageSettings, read } from '../../support/deployment.ts';

const [, written = ''] = /^ *cat > \.env <<END\n([\s\S]*?)^ *END$/m.exec(read('docs/production.md')) ?? [];

test('writes settings that the server takes, with the lame-duck time of the image', () => {
  const env = parseEnv(written.replace('$DOMAIN', 'animals.example.com')) as Record<string, string>;
  expect(readConfig(env)).toMatchObject({ DEPLOYMENT: 'production', BASE_URL: 'https://animals.example.com/v1' });
  expect(env.LAME_DUCK_MS).toBe(String(imageSettings.LAME_DUCK_MS));
});
