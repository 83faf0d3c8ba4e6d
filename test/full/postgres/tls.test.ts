/** Tests of TLS to the database, as set by sslmode in its URL. */
import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import tls from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { openStore } from '../../../src/store/open.ts';
import { startOwn } from '../../support/own-postgres.ts';
import type { Server } from '../../support/postgres.ts';
import { startProxy } from '../../support/proxy.ts';
import { emptyStore, temporaryFolder } from '../../support/store.ts';

const now = () => new Date();

/** Creates a self-signed certificate for 127.0.0.1, and its key, as two files. */
function makeCertificate(): [certificate: string, key: string] {
  const folder = temporaryFolder();
  const [certificate, key] = [path.join(folder, 'server.crt'), path.join(folder, 'server.key')];
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1'];
  const subject = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1'];
  execFileSync(
    'openssl',
    ['req', '-x509', ...curve, '-nodes', '-days', '2', '-keyout', key, '-out', certificate, ...subject],
    { stdio: 'ignore' },
  );
  return [certificate, key];
}

/** Starts a PostgreSQL server with such a certificate. */
async function startWithTls(): Promise<{ server: Server; certificate: string }> {
  const [certificate, key] = makeCertificate();
  const server = await startOwn(['ssl = on'], (data) => {
    const { uid, gid } = fs.statSync(data);
    for (const file of [certificate, key]) {
      const copy = path.join(data, path.basename(file));
      fs.copyFileSync(file, copy);
      fs.chmodSync(copy, 0o600);
      fs.chownSync(copy, uid, gid);
    }
  });
  return { server, certificate };
}

const missing = spawnSync('openssl', ['version']).error && 'openssl is not installed, so no certificate can be created';

async function open(databaseUrl: string): Promise<void> {
  await (await openStore(databaseUrl, { now })).close();
}

test('sslmode encrypts from require on, and verify-full rejects an untrusted certificate', async ({ skip }) => {
  if (missing) skip(missing);
  const { server, certificate } = await startWithTls();
  const url = server.url('postgres');
  async function encrypted(query: string): Promise<boolean> {
    const proxy = await startProxy(url);
    await open(proxy.through(url) + query);
    return !proxy.seen().includes('SELECT ');
  }
  expect(await encrypted('')).toBe(false);
  expect(await encrypted('?sslmode=disable')).toBe(false);
  expect(await encrypted('?sslmode=require')).toBe(true);
  for (const mode of ['verify-ca', 'verify-full']) {
    const trusting = `?sslmode=${mode}&sslrootcert=${certificate}`;
    expect(await encrypted(trusting), mode).toBe(true);
    await expect(encrypted(`?sslmode=${mode}`)).rejects.toThrow('cannot be opened: self-signed certificate');
    await expect(open(url.replace('127.0.0.1', 'localhost') + trusting)).rejects.toThrow(/does not match.*altnames/);
  }
}, 60_000);

test('a server without TLS is rejected by require', async () => {
  const databaseUrl = await emptyStore();
  await expect(open(`${databaseUrl}?sslmode=require`)).rejects.toThrow(
    'cannot be opened: The server does not support SSL connections.',
  );
});

test('data that a man in the middle sends before the TLS handshake is rejected', async () => {
  const between = net.createServer((socket) =>
    socket.on('error', () => undefined).once('data', () => socket.write('SR')),
  );
  await once(between.listen(0, '127.0.0.1'), 'listening');
  onTestFinished(() => void between.close());
  const { port } = between.address() as net.AddressInfo;
  await expect(open(`postgres://app@127.0.0.1:${port}/animals?sslmode=require`)).rejects.toThrow(
    'cannot be opened: There was an error establishing an SSL connection.',
  );
});

/** An ErrorResponse that rejects the client (https://www.postgresql.org/docs/18/protocol-message-formats.html). */
const rejection = (() => {
  const fields = Buffer.from('SFATAL\0VFATAL\0C28000\0Mnobody is let in\0\0');
  const head = Buffer.from('E\0\0\0\0');
  head.writeUInt32BE(fields.length + 4, 1);
  return Buffer.concat([head, fields]);
})();

test('TLS sends the host as its server name (SNI), unless it is an IP address', async ({ skip }) => {
  if (missing) skip(missing);
  const [cert, key] = makeCertificate().map((file) => fs.readFileSync(file)) as [Buffer, Buffer];
  const context = tls.createSecureContext({ cert, key });
  const serverNames: string[] = [];
  const proxy = net.createServer((socket) =>
    socket.once('data', () => {
      socket.write('S');
      const secure = new tls.TLSSocket(socket, {
        isServer: true,
        secureContext: context,
        SNICallback(name, done) {
          serverNames.push(name);
          done(null, context);
        },
      });
      secure.on('error', () => undefined).once('data', () => secure.end(rejection));
    }),
  );
  await once(proxy.listen(0), 'listening');
  onTestFinished(() => void proxy.close());
  const { port } = proxy.address() as net.AddressInfo;
  for (const host of ['127.0.0.1', 'localhost']) {
    const opening = open(`postgres://app@${host}:${port}/animals?sslmode=require`);
    await expect(opening).rejects.toThrow('cannot be opened: nobody is let in.');
    expect(serverNames).toEqual(host === 'localhost' ? ['localhost'] : []);
  }
});
