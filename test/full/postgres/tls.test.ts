/** Tests of TLS to the database, as set by sslmode in its URL. */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { certify } from '../../support/nginx.ts';
import { startOwn } from '../../support/own-postgres.ts';
import { startProxy } from '../../support/proxy.ts';
import { clientOf, emptyStore, open, temporaryFolder } from '../../support/store.ts';

/** Starts a PostgreSQL server with a self-signed certificate for 127.0.0.1. */
async function startWithTls() {
  let folder = '';
  /** Gives the server a new certificate, whose file it returns. */
  function renew() {
    const files = certify(temporaryFolder(), 'IP:127.0.0.1');
    const { uid, gid } = fs.statSync(folder);
    for (const file of files) {
      const copy = path.join(folder, path.basename(file));
      fs.copyFileSync(file, copy);
      fs.chmodSync(copy, 0o600);
      fs.chownSync(copy, uid, gid);
    }
    return files[0];
  }
  let certificate = '';
  const server = await startOwn(['ssl = on'], (data) => {
    folder = data;
    certificate = renew();
  });
  return { server, certificate, renew };
}

const missing = spawnSync('openssl', ['version']).error && 'openssl is not installed, so no certificate can be created';

test('sslmode encrypts from require on, and verify-full rejects an untrusted certificate', async ({ skip }) => {
  if (missing) skip(missing);
  const { server, certificate } = await startWithTls();
  const url = server.url('postgres');
  async function encrypted(query: string): Promise<boolean> {
    const proxy = await startProxy(url);
    await open(proxy.url + query);
    return !proxy.seen().includes('SELECT ');
  }
  expect(await encrypted('')).toBe(false);
  expect(await encrypted('?sslmode=disable')).toBe(false);
  expect(await encrypted('?sslmode=require')).toBe(true);
  const localhost = url.replace('127.0.0.1', 'localhost');
  await (await open(`${localhost}?sslmode=require&sslrootcert=${certificate}`)).close();
  await expect(
    open(`${url}?sslmode=require&sslrootcert=${certify(temporaryFolder(), 'IP:127.0.0.1')[0]}`),
  ).rejects.toThrow('self-signed certificate');
  for (const mode of ['verify-ca', 'verify-full']) {
    const trusting = `?sslmode=${mode}&sslrootcert=${certificate}`;
    expect(await encrypted(trusting), mode).toBe(true);
    await expect(encrypted(`?sslmode=${mode}`)).rejects.toThrow('cannot be opened: self-signed certificate');
    await expect(open(localhost + trusting)).rejects.toThrow(/does not match.*altnames/);
  }
});

test('a renewed certificate is read for the next connection', async ({ skip }) => {
  if (missing) skip(missing);
  const { server, certificate, renew } = await startWithTls();
  const trusted = `${temporaryFolder()}/ca.pem`;
  fs.copyFileSync(certificate, trusted);
  const store = await open(`${server.url('postgres')}?sslmode=verify-full&sslrootcert=${trusted}`);
  const sql = clientOf(server.url('postgres'));
  fs.copyFileSync(renew(), trusted);
  await sql`SELECT pg_reload_conf()`;
  const end = () => sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'animal-store'`;
  await end();
  await expect.poll(() => store.check().then(() => true, String), { timeout: 5000 }).toBe(true);
  // While it is being replaced.
  for (const replace of [() => fs.truncateSync(trusted), () => fs.rmSync(trusted)]) {
    replace();
    await end();
    await expect.poll(() => store.check().then(() => true, String), { timeout: 5000 }).toBe(true);
  }
});

test('a server without TLS is rejected by require', async () => {
  const databaseUrl = await emptyStore();
  await expect(open(`${databaseUrl}?sslmode=require`)).rejects.toThrow(
    'cannot be opened: The server does not support SSL connections.',
  );
});
