/** Runs a real nginx with deploy/nginx-main.conf and deploy/nginx.conf, after replacing their ports, their files and the certificate. */
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import { Agent, request } from 'undici';
import { expect, onTestFinished } from 'vitest';
import { temporaryFolder } from './app.ts';
import { findPort } from './known-port.ts';
import { launch } from './process.ts';
import { read } from './project.ts';

const missing = ['nginx', 'openssl'].filter((tool) => spawnSync(tool, ['-h']).error);

/** Why nginx cannot run here; undefined if it can. */
export const missingNginx = missing.length > 0 ? `not installed: ${missing.join(', ')}` : undefined;

/** Server name of production. */
export const name = 'animals.example.com';

/** Creates a self-signed certificate and its key, as two files. */
export function certify(folder: string, subject = `DNS:${name}`): [certificate: string, key: string] {
  const [certificate, key] = [`${folder}/server.crt`, `${folder}/server.key`];
  const what = `-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=a -addext subjectAltName=${subject}`;
  execFileSync('openssl', ['req', '-x509', ...what.split(' '), '-keyout', key, '-out', certificate], {
    stdio: 'ignore',
  });
  return [certificate, key];
}

/** Replaces texts, each of which must occur. */
function replaceAll(text: string, replacements: Record<string, string>): string {
  return Object.entries(replacements).reduce((before, [from, to]) => {
    expect(before).toContain(from);
    return before.replaceAll(from, to);
  }, text);
}

/** Writes both files to the folder. nginx runs as one process: killing it leaves no workers. */
async function configure(folder: string, upstream: number, inHttp: string) {
  const [certificate, key] = certify(folder);
  const [https, http] = [await findPort(), await findPort()];
  const site = replaceAll(read('deploy/nginx.conf'), {
    '127.0.0.1:3000': `127.0.0.1:${upstream}`,
    'listen 443': `listen 127.0.0.1:${https}`,
    'listen 80': `listen 127.0.0.1:${http}`,
    '[::]:443': `127.0.0.2:${https}`,
    '[::]:80': `127.0.0.2:${http}`,
    [`/etc/letsencrypt/live/${name}/fullchain.pem`]: certificate,
    [`/etc/letsencrypt/live/${name}/privkey.pem`]: key,
    '/var/log/nginx/': `${folder}/`,
    '# https://app.animals': 'https://app.animals',
  });
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (kind) => `${kind}_temp_path ${folder}/t;`,
  );
  writeFileSync(`${folder}/site.conf`, [inHttp, ...temporary, site].join('\n'));
  const main = replaceAll(read('deploy/nginx-main.conf'), {
    'user www-data;': 'daemon off;\nmaster_process off;',
    '/run/nginx.pid': `${folder}/pid`,
    'include /etc/nginx/modules-enabled/*.conf;': '',
    '/etc/nginx/conf.d/*.conf': `${folder}/site.conf`,
    '/var/log/nginx/': `${folder}/`,
  });
  writeFileSync(`${folder}/nginx.conf`, main);
  return { https, http, ca: readFileSync(certificate) };
}

/** Starts nginx in front of the server at this port; resolves when it listens. `inHttp`: more directives for http. */
export async function startNginx(upstream: number, inHttp = '') {
  const folder = temporaryFolder();
  const { https, http, ca } = await configure(folder, upstream, inHttp);
  const nginx = launch('nginx', ['-p', folder, '-e', 'stderr', '-c', `${folder}/nginx.conf`], {});
  const connects = () =>
    new Promise((resolve) => {
      const socket = connect(https, '127.0.0.1', () => resolve(true));
      socket.on('error', () => resolve(false)).on('connect', () => socket.destroy());
    });
  await expect.poll(connects).toBe(true);
  const dispatcher = new Agent({ allowH2: false, connect: { ca, servername: name } });
  onTestFinished(() => dispatcher.destroy());

  const call = async (method: string, target: string, headers: Record<string, string> = {}, body?: string) => {
    const answer = await request(`https://127.0.0.1:${https}${target}`, {
      method: method as 'GET',
      headers: { host: name, ...headers },
      body: body ?? null,
      dispatcher,
    });
    return { status: answer.statusCode, headers: answer.headers, text: await answer.body.text() };
  };
  /** Opens a connection over TLS from a local address. */
  const open = (localAddress = '127.0.0.1') =>
    connectTls({ host: '127.0.0.1', port: https, localAddress, ca, servername: name } as ConnectionOptions);
  /** Resolves to everything received until the connection closes. */
  const send = (socket: Socket, bytes: string) => {
    onTestFinished(() => void socket.destroy());
    socket.write(bytes);
    return text(socket);
  };
  const accessLog = () => readFileSync(`${folder}/access.log`, 'utf8');
  const errorLog = () => readFileSync(`${folder}/error.log`, 'utf8');
  /** All that nginx has written. */
  const written = () => accessLog() + errorLog() + nginx.stdout() + nginx.stderr();
  return {
    ...{ https, http, ca, call, open, accessLog, written },
    /** Sends bytes over TLS, and without. */
    raw: (bytes: string, localAddress?: string) => send(open(localAddress), bytes),
    rawHttp: (bytes: string) => send(connect(http, '127.0.0.1'), bytes),
  };
}

/** Starts nginx with no server behind it. */
export async function startNginxAlone() {
  return startNginx(await findPort());
}
