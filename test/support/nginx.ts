/** Runs a real nginx with deploy/nginx.conf, after replacing its ports and its certificate. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { connect as connectTls } from 'node:tls';
import { Agent, request } from 'undici';
import { expect, onTestFinished } from 'vitest';
import { temporaryFolder } from './app.ts';
import { findPort } from './known-port.ts';
import { launch } from './process.ts';
import { projectFolder } from './project.ts';

/** Server name of production; staging has the prefix `staging.`. */
export const name = 'animals.example.com';

function certify(folder: string): { certificate: string; key: string } {
  const [certificate, key] = [path.join(folder, 'certificate.pem'), path.join(folder, 'key.pem')];
  const names = `subjectAltName=DNS:${name},DNS:staging.${name}`;
  const what = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', `/CN=${name}`];
  execFileSync('openssl', ['req', '-x509', ...what, '-addext', names, '-keyout', key, '-out', certificate], {
    stdio: 'ignore',
  });
  return { certificate, key };
}

interface Ports {
  production: number;
  staging: number;
}

/** Writes a minimal nginx configuration around deploy/nginx.conf. Each text to replace must occur in it. */
async function configure(folder: string, upstream: Ports) {
  const { certificate, key } = certify(folder);
  const [https, http] = [await findPort(), await findPort()];
  let site = readFileSync(`${projectFolder}deploy/nginx.conf`, 'utf8');
  for (const [from, to] of [
    ['127.0.0.1:3000', `127.0.0.1:${upstream.production}`],
    ['127.0.0.1:3100', `127.0.0.1:${upstream.staging}`],
    ['listen 443', `listen 127.0.0.1:${https}`],
    ['listen 80', `listen 127.0.0.1:${http}`],
    [`/etc/letsencrypt/live/${name}/fullchain.pem`, certificate],
    [`/etc/letsencrypt/live/${name}/privkey.pem`, key],
    ['/var/log/nginx/access.log', path.join(folder, 'access.log')],
  ] as const) {
    expect(site).toContain(from);
    site = site.replaceAll(from, to);
  }
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (kind) => `${kind}_temp_path ${folder}/t;`,
  );
  const inHttp = [`access_log ${folder}/access.log;`, ...temporary, site].join('\n');
  const file = path.join(folder, 'nginx.conf');
  writeFileSync(file, `pid ${folder}/pid;\ndaemon off;\nmaster_process off;\nevents {}\nhttp {\n${inHttp}\n}\n`);
  return { file, https, http, certificate };
}

export interface Answer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: string;
  /** The body as it was sent: it may be compressed. */
  bytes: Buffer;
}

/** Starts nginx in front of the servers at these ports; resolves when it listens. */
export async function startNginx(upstream: Ports) {
  const folder = temporaryFolder();
  mkdirSync(path.join(folder, 'logs'));
  const { file, https, http, certificate } = await configure(folder, upstream);
  const nginx = launch('nginx', ['-p', folder, '-e', 'stderr', '-c', file], {});
  const ca = readFileSync(certificate);
  const connects = () =>
    new Promise((resolve) => {
      const socket = connect(https, '127.0.0.1', () => resolve(true));
      socket.on('error', () => resolve(false)).on('connect', () => socket.destroy());
    });
  await expect.poll(connects, { timeout: 10_000 }).toBe(true);
  const agents = [name, `staging.${name}`].map(
    (servername) => new Agent({ allowH2: false, connect: { ca, servername } }),
  );
  onTestFinished(() => Promise.all(agents.map((agent) => agent.destroy())).then(() => undefined));

  const call = async (method: string, target: string, headers: Record<string, string> = {}, body?: string) => {
    const staging = headers.host?.startsWith('staging.');
    const answer = await request(`https://127.0.0.1:${https}${target}`, {
      method: method as 'GET',
      headers: { host: name, ...headers },
      body: body ?? null,
      dispatcher: agents[staging ? 1 : 0] as Agent,
    });
    const bytes = Buffer.from(await answer.body.arrayBuffer());
    return { status: answer.statusCode, headers: answer.headers, body: bytes.toString(), bytes };
  };
  /** Sends bytes over TLS; resolves to everything received until the connection closes. */
  const raw = (bytes: string) => {
    const socket = connectTls({ host: '127.0.0.1', port: https, ca, servername: name });
    onTestFinished(() => void socket.destroy());
    socket.write(bytes);
    return text(socket);
  };
  const accessLog = () => readFileSync(path.join(folder, 'access.log'), 'utf8');
  return { nginx, https, http, ca, call, raw, accessLog };
}

/** Starts nginx with no server behind it. */
export async function startNginxAlone() {
  const port = await findPort();
  return startNginx({ production: port, staging: port });
}
