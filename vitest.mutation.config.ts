import { defineConfig } from 'vitest/config';

export default defineConfig({ test: { include: ['test/support/in-process.ts'], testTimeout: 30_000 } });
