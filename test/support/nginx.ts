/** Runs a real nginx with the files of deploy, after replacing their ports, their paths and the certificate. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import { Agent, request } from 'undici';
import { expect, onTestFinished, type TestContext } from 'vitest';
import { temporaryFolder } from './app.ts';
import { findPort } from './known-port.ts';
import { launch } from './process.ts';
import { read } from './project.ts';

const missing = ['nginx', 'openssl'].filter((tool) => spawnSync(tool, ['-h']).error);

/** For beforeEach: skips the test if nginx cannot run here. */
export const needNginx = ({ skip }: TestContext) => skip(missing.length > 0, `not installed: ${missing.join(', ')}`);

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
function replaceAll(text: string, replacements: Record<string, string>) {
  return Object.entries(replacements).reduce((before, [from, to]) => {
    expect(before).toContain(from);
    return before.replaceAll(from, to);
  }, text);
}

/** Copies the shared files. nginx runs as one process: killing it leaves no workers. */
function copyShared(folder: string, to: string) {
  mkdirSync(to, { recursive: true });
  for (const file of ['http.conf', 'server.conf', 'behind-tls.conf']) {
    const text = read(`deploy/nginx/${file}`)
      .replaceAll('/tmp/', `${folder}/`)
      .replaceAll('/var/log/nginx/', `${folder}/`)
      .replaceAll('# https://app.animals', 'https://app.animals');
    writeFileSync(`${to}/${file}`, text);
  }
}

/** Lets each upstream of this address lead to these ports. */
const leadTo = (text: string, address: string, ports: number[]) =>
  text.replaceAll(new RegExp(`server ${RegExp.escape(address)}(?: resolve)?( [^;]*;)`, 'g'), (_, rest) =>
    ports.map((port) => `server 127.0.0.1:${port}${rest}`).join(' '),
  );

export interface NginxOptions {
  /** More directives for http. */
  inHttp?: string;
  /** Size of the kernel's buffer of what was not sent to a client. */
  sndbuf?: string;
}

/** Writes deploy/nginx.conf and what it includes to the folder. */
async function configure(folder: string, upstreams: number[], { inHttp = '', sndbuf }: NginxOptions) {
  const [certificate, key] = certify(folder);
  const [https, http] = [await findPort(), await findPort()];
  const site = replaceAll(leadTo(read('deploy/nginx.conf'), '127.0.0.1:3000', upstreams), {
    ' default_server;': sndbuf ? ` default_server sndbuf=${sndbuf};` : ' default_server;',
    'listen 443': `listen 127.0.0.1:${https}`,
    'listen 80': `listen 127.0.0.1:${http}`,
    '[::]:443': `127.0.0.2:${https}`,
    '[::]:80': `127.0.0.2:${http}`,
    [`/etc/letsencrypt/live/${name}/fullchain.pem`]: certificate,
    [`/etc/letsencrypt/live/${name}/privkey.pem`]: key,
  });
  copyShared(folder, `${folder}/animal-store`);
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

/** Starts nginx with nginx.conf of the folder; resolves when it listens. */
async function launchNginx(folder: string, port: number, group = false) {
  const nginx = launch('nginx', ['-p', folder, '-e', 'stderr', '-c', `${folder}/nginx.conf`], { group });
  const connects = () =>
    new Promise((resolve) => {
      const socket = connect(port, '127.0.0.1', () => resolve(true));
      socket.on('error', () => resolve(false)).on('connect', () => socket.destroy());
    });
  const ended = nginx.end().then(({ stderr }) => stderr);
  await expect.poll(() => Promise.race([connects(), ended])).toBe(true);
  return nginx;
}

/** Where the containers of nginx find their servers, and the ports that they listen on. */
const containers = {
  sidecar: { addresses: ['127.0.0.1:3000'], ports: [8080] },
  compose: { addresses: ['production:3000', 'staging:3000'], ports: [8080, 8081] },
};

/** Starts nginx as a container has it, behind a proxy at 127.0.0.1. `upstreams`: the port of each server. Resolves to its ports. */
export async function startContained(place: keyof typeof containers, upstreams: number[]) {
  const folder = temporaryFolder();
  const found: number[] = [];
  let text = replaceAll(read(`deploy/nginx/${place}.conf`), { '/tmp/': `${folder}/` });
  text = text.replace('set_real_ip_from', 'set_real_ip_from 127.0.0.1; $&');
  for (const [at, address] of containers[place].addresses.entries())
    text = leadTo(text, address, [upstreams[at] as number]);
  for (const port of containers[place].ports) {
    found.push(await findPort());
    text = replaceAll(text, { [`listen ${port};`]: `listen ${found.at(-1)};` });
  }
  copyShared(folder, folder);
  writeFileSync(`${folder}/nginx.conf`, text);
  await launchNginx(folder, found[0] as number, true);
  return found;
}

/** Starts nginx in front of the servers at these ports; resolves when it listens. */
export async function startNginx(upstreams: number | number[], options: NginxOptions = {}) {
  const folder = temporaryFolder();
  const { https, http, ca } = await configure(folder, [upstreams].flat(), options);
  const nginx = await launchNginx(folder, https);
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
    folder,
    https,
    http,
    ca,
    call,
    open,
    accessLog,
    errorLog,
    written,
    /** Sends bytes over TLS, and without. */
    raw: (bytes: string, localAddress?: string) => send(open(localAddress), bytes),
    rawHttp: (bytes: string) => send(connect(http, '127.0.0.1'), bytes),
  };
}

/** Starts nginx with no server behind it. */
export async function startNginxAlone() {
  return startNginx(await findPort());
}
