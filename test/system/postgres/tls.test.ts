/** Tests of TLS to the database, as set by sslmode in its URL. */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import tls from 'node:tls';
import { beforeEach, expect, test } from 'vitest';
import { certify } from '../../support/nginx.ts';
import { startProxy } from '../../support/proxy.ts';
import { listen } from '../../support/raw.ts';
import { clientOf, open, temporaryFolder } from '../../support/store.ts';
import { startOwn } from './own-postgres.ts';

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
  /** Asks clients for a password in this way. */
  async function askFor(method: string) {
    fs.writeFileSync(path.join(folder, 'pg_hba.conf'), `hostssl all all all ${method}\n`);
    await administrator`SELECT pg_reload_conf()`;
    // The server reads it between two statements.
    await sleep(200);
  }
  const administrator = clientOf(server.url('postgres'));
  await administrator`ALTER ROLE CURRENT_USER PASSWORD 'otters'`;
  const url = server.url('postgres');
  /** `own`: with the password. */
  return { url, own: url.replace('@', ':otters@'), certificate, renew, askFor };
}

const { error } = spawnSync('openssl', ['version']);

beforeEach(({ skip }) => skip(error !== undefined, 'openssl is not installed, so no certificate can be created'));

const noProof = 'the server does not prove itself with SCRAM-SHA-256-PLUS';

test('sslmode encrypts from require on, and verify-full rejects an untrusted certificate', async () => {
  const { url, certificate } = await startWithTls();
  async function encrypted(query: string) {
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

test('channel_binding=require, as Neon prints it, needs a server that proves with SCRAM-SHA-256-PLUS that it holds the certificate', async () => {
  const { url, own, askFor } = await startWithTls();
  await expect(open(`${url}?channel_binding=require`)).rejects.toThrow(
    'channel_binding=require needs TLS: add sslmode=require',
  );
  await expect(open(`${url}?channel_binding=on`)).rejects.toThrow('must be one of disable, prefer, require.');
  const bound = `${own}?sslmode=require&channel_binding=require`;
  // Without a password, by trust; then in clear text.
  await expect(open(bound)).rejects.toThrow(noProof);
  await askFor('password');
  await expect(open(bound)).rejects.toThrow(noProof);
  await (await open(`${own}?sslmode=require&channel_binding=prefer`)).close();
  await askFor('scram-sha-256');
  await (await open(bound)).close();
});

test('channel_binding=require refuses a server that offers SCRAM-SHA-256-PLUS, and proves nothing', async () => {
  const [cert, key] = certify(temporaryFolder(), 'IP:127.0.0.1').map((file) => fs.readFileSync(file));
  /** A message of the protocol: its type, its length and its content. */
  const message = (type: string, content: Buffer) => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(4 + content.length);
    return Buffer.concat([Buffer.from(type), length, content]);
  };
  const offer = message('R', Buffer.from('\0\0\0\x0aSCRAM-SHA-256-PLUS\0\0', 'latin1'));
  const accept = Buffer.concat([message('R', Buffer.alloc(4)), message('Z', Buffer.from('I'))]);
  const sent: string[] = [];
  const server = net.createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => {
      socket.write('S');
      const secure = new tls.TLSSocket(socket, { isServer: true, cert, key }).on('error', () => {});
      secure.once('data', () => {
        secure.write(offer);
        secure.once('data', () => {
          secure.write(accept);
          secure.on('data', (bytes) => void sent.push(String(bytes)));
        });
      });
    });
  });
  const url = `postgres://me:otters@127.0.0.1:${await listen(server)}/animals?sslmode=require&channel_binding=require`;
  await expect(open(url)).rejects.toThrow(noProof);
  expect(sent).toEqual([]);
});

test('a renewed certificate is trusted after a restart', async () => {
  const { url, certificate, renew } = await startWithTls();
  const trusted = `${temporaryFolder()}/ca.pem`;
  fs.copyFileSync(certificate, trusted);
  const trusting = `${url}?sslmode=verify-full&sslrootcert=${trusted}`;
  const sql = clientOf(url);
  const store = await open(trusting);
  fs.copyFileSync(renew(), trusted);
  await sql`SELECT pg_reload_conf()`;
  await sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'animal-store'`;
  await expect(store.check()).rejects.toMatchObject({ code: 'service_unavailable' });
  await (await open(trusting)).check();
});
