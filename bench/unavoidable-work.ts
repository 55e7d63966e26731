// The work that no gateway of this kind can avoid, and nothing else, as a yardstick: SMTP in (with STARTTLS and AUTH where asked for),
// an allowlist of fields, DKIM with RSA-2048, a log that is synced before the 250 for a group of messages at once, and a relay over
// pooled, pipelined connections. It is no mail server: it keeps no queue, tries nothing again, and believes its clients. Its one
// argument is an UnavoidableJob as JSON; it prints the port that it listens at, on loopback.

import { createHash, createPrivateKey, generateKeyPairSync, type KeyObject, sign, timingSafeEqual } from 'node:crypto';
import { fdatasync, openSync, writev } from 'node:fs';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { createSecureContext, TLSSocket } from 'node:tls';

/** What it does. */
export interface UnavoidableJob {
  /** Where its log is written. */
  readonly folder: string;
  /** The next hop, on loopback. */
  readonly sinkPort: number;
  /** DKIM signatures of each message: 1 or 2. */
  readonly signatures: number;
  /** The password that AUTH PLAIN takes. */
  readonly token: string;
  /** What STARTTLS shows, PEM. */
  readonly tls: { readonly cert: string; readonly key: string };
}

/** A message on its way out: its header, with signatures, and its body, with dots doubled as they came. */
interface Message {
  readonly from: string;
  readonly to: string;
  readonly head: Buffer;
  readonly body: Buffer;
}

/** Told how a message ended: nothing, or the reply that refuses it. */
type Done = (refusal?: string) => void;

const job = JSON.parse(process.argv[2] ?? '') as UnavoidableJob;

// The log: what comes while a group is being written is the next group.
const log = openSync(join(job.folder, 'log'), 'w');
let waitingOctets: Buffer[] = [];
let waitingFor: (() => void)[] = [];
let isWriting = false;

function writeGroup(): void {
  const [octets, told] = [waitingOctets, waitingFor];
  [waitingOctets, waitingFor] = [[], []];
  const done = (): void => {
    for (const tell of told) tell();
    if (waitingFor.length > 0) setImmediate(writeGroup);
    else isWriting = false;
  };
  writev(log, octets, null, (error) => {
    if (error) throw error;
    if (told.length === 0) done();
    else fdatasync(log, done);
  });
}

/** Writes records; with `then`, syncs them and calls it. An outcome goes with the next group, which nobody waits for. */
function append(records: readonly Buffer[], then?: () => void): void {
  waitingOctets.push(...records);
  if (then) waitingFor.push(then);
  if (isWriting) return;
  isWriting = true;
  setImmediate(writeGroup);
}

// The signatures.
interface Signer {
  readonly key: KeyObject;
  readonly domain: string;
}

function newSigner(domain: string): Signer {
  const pem = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ type: 'pkcs8', format: 'pem' });
  return { key: createPrivateKey(pem), domain };
}

const signers = ['example.com', 'platform.example'].slice(0, job.signatures).map(newSigner);
const allowed = new Set(
  'received from to cc sender reply-to subject date message-id mime-version content-type content-transfer-encoding'.split(
    ' ',
  ),
);
const signedFields = ['from', 'to', 'subject', 'date', 'message-id', 'mime-version', 'content-type'];

/** Signs relaxed/simple by RFC 6376 in the thread pool, and gives the field. */
function addSignature(
  { key, domain }: Signer,
  fields: ReadonlyMap<string, string>,
  hash: string,
  then: (field: string) => void,
): void {
  const names = signedFields.filter((name) => fields.has(name));
  let covered = '';
  for (const name of names) {
    const field = fields.get(name) ?? '';
    covered += `${name}:${field
      .slice(field.indexOf(':') + 1)
      .replace(/\r\n/g, '')
      .replace(/[ \t]+/g, ' ')
      .trim()}\r\n`;
  }
  const value = `v=1; a=rsa-sha256; c=relaxed/simple; d=${domain}; s=bench; h=${names.join(':')}; bh=${hash}; b=`;
  sign('sha256', Buffer.from(`${covered}dkim-signature:${value}`, 'latin1'), key, (error, signature) => {
    if (error) throw error;
    then(`DKIM-Signature: ${value}${signature.toString('base64').replace(/(.{70})/g, '$1\r\n ')}\r\n`);
  });
}

/** What the signatures cover of a body: without the doubled dots, and with one line end at its end. */
function canonicalBody(body: Buffer): Buffer {
  let plain = body;
  if (body[0] === 46 || body.includes('\r\n.'))
    plain = Buffer.from(body.toString('latin1').replace(/(^|\r\n)\./g, '$1'), 'latin1');
  let end = plain.length;
  while (end >= 4 && plain[end - 1] === 10 && plain[end - 3] === 10) end -= 2;
  return plain.subarray(0, end);
}

/** Judges, signs, logs and relays what came between DATA and the final dot. */
function take(octets: Buffer, from: string, to: string, done: Done): void {
  const end = octets.indexOf('\r\n\r\n');
  const kept: string[] = [];
  const fields = new Map<string, string>();
  for (const line of octets.toString('latin1', 0, end).split(/\r\n(?![ \t])/)) {
    const name = line.slice(0, line.indexOf(':')).toLowerCase();
    if (!allowed.has(name)) return done(`550 5.7.1 ${name} is not allowed`);
    if (name === 'received') continue;
    kept.push(line);
    fields.set(name, line);
  }
  const body = octets.subarray(end + 4);
  const hash = createHash('sha256').update(canonicalBody(body)).digest('base64');
  const signatures: string[] = [];
  for (const signer of signers) {
    addSignature(signer, fields, hash, (field) => {
      if (signatures.push(field) < signers.length) return;
      const received = `Received: from client by gateway with ESMTP; ${new Date().toUTCString()}\r\n`;
      const head = Buffer.from(`${signatures.join('')}${received}${kept.join('\r\n')}\r\n\r\n`, 'latin1');
      const message = { from, to, head, body };
      const record = Buffer.from(`${JSON.stringify({ from, to, octets: head.length + body.length })}\n`);
      append([record, head, body], () => {
        done();
        relay(message);
      });
    });
  }
}

// The relay: a message at a time on a connection, and MAIL, RCPT and DATA in one write.
const mostConnections = 8;
const waiting: Message[] = [];
const idle: ((message: Message) => void)[] = [];
const outcome = Buffer.from('{"done":1}\n');
let connections = 0;

function relay(message: Message): void {
  const send = idle.pop();
  if (send) return send(message);
  waiting.push(message);
  if (connections < mostConnections) openConnection();
}

function openConnection(): void {
  connections += 1;
  const socket = connect({ host: '127.0.0.1', port: job.sinkPort, noDelay: true });
  let message: Message | undefined;
  let text = '';
  /** Replies until the next step, of the greeting and EHLO first. */
  let wanted = 2;
  let isGreeted = false;
  const send = (next: Message): void => {
    message = next;
    wanted = 3;
    socket.write(`MAIL FROM:<${next.from}>\r\nRCPT TO:<${next.to}>\r\nDATA\r\n`);
  };
  const goOn = (): void => {
    const next = waiting.shift();
    if (next) send(next);
    else idle.push(send);
  };
  const heard = (reply: string): void => {
    if (reply[3] === '-') return;
    if (reply[0] === '4' || reply[0] === '5') throw new Error(`The sink refused: ${reply}`);
    wanted -= 1;
    if (!isGreeted) {
      isGreeted = wanted === 0;
      if (isGreeted) goOn();
      else socket.write('EHLO gateway.example\r\n');
    } else if (reply[0] === '3' && message) {
      socket.cork();
      socket.write(message.head);
      socket.write(message.body);
      socket.write('.\r\n');
      socket.uncork();
      wanted = 1;
    } else if (wanted === 0) {
      append([outcome]);
      goOn();
    }
  };
  socket.on('data', (piece) => {
    text += piece.toString('latin1');
    for (let end = text.indexOf('\r\n'); end >= 0; end = text.indexOf('\r\n')) {
      const reply = text.slice(0, end);
      text = text.slice(end + 2);
      heard(reply);
    }
  });
  socket.on('error', (error) => console.error(String(error)));
  socket.on('close', () => {
    connections -= 1;
    const place = idle.indexOf(send);
    if (place >= 0) idle.splice(place, 1);
  });
}

// The door.
const endOfData = Buffer.from('\r\n.\r\n');
const tokenHash = createHash('sha256').update(job.token).digest();

function addressIn(line: string): string {
  return line.slice(line.indexOf('<') + 1, line.indexOf('>'));
}

function isToken(line: string): boolean {
  const password = Buffer.from(line.slice('AUTH PLAIN '.length), 'base64').toString().split('\0')[2] ?? '';
  return timingSafeEqual(createHash('sha256').update(password).digest(), tokenHash);
}

const secureContext = createSecureContext(job.tls);

function serve(accepted: Socket): void {
  let socket = accepted;
  let rest: Buffer | undefined;
  let isData = false;
  let [from, to] = ['', ''];
  const heardData = (octets: Buffer): Buffer | undefined => {
    const end = octets.indexOf(endOfData);
    if (end < 0) return undefined;
    isData = false;
    take(octets.subarray(0, end + 2), from, to, (refusal) =>
      socket.write(refusal ? `${refusal}\r\n` : '250 2.0.0 Ok\r\n'),
    );
    return octets.subarray(end + 5);
  };
  const heardCommand = (octets: Buffer): Buffer | undefined => {
    const end = octets.indexOf('\r\n');
    if (end < 0) return undefined;
    const line = octets.toString('latin1', 0, end);
    const verb = line.slice(0, 4).toUpperCase();
    if (verb === 'DATA') {
      isData = true;
      socket.write('354 Go on\r\n');
    } else if (verb === 'QUIT') socket.end('221 2.0.0 Bye\r\n');
    else if (verb === 'EHLO')
      socket.write('250-gateway.example\r\n250-PIPELINING\r\n250-STARTTLS\r\n250-AUTH PLAIN\r\n250 8BITMIME\r\n');
    else if (verb === 'AUTH') socket.write(isToken(line) ? '235 2.7.0 Ok\r\n' : '535 5.7.8 No\r\n');
    else if (verb === 'STAR') {
      socket.write('220 2.0.0 Ready\r\n');
      socket.removeAllListeners('data');
      socket = new TLSSocket(socket, { isServer: true, secureContext });
      listen();
    } else {
      if (verb === 'MAIL') from = addressIn(line);
      else if (verb === 'RCPT') to = addressIn(line);
      socket.write('250 2.0.0 Ok\r\n');
    }
    return octets.subarray(end + 2);
  };
  const listen = (): void => {
    socket.on('error', () => undefined);
    socket.on('data', (piece: Buffer) => {
      let octets = rest ? Buffer.concat([rest, piece]) : piece;
      rest = undefined;
      while (octets.length > 0) {
        const left = isData ? heardData(octets) : heardCommand(octets);
        if (!left) {
          rest = octets;
          return;
        }
        octets = left;
      }
    });
  };
  listen();
  socket.write('220 gateway.example ESMTP\r\n');
}

const server = createServer({ noDelay: true }, serve);
server.listen(0, '127.0.0.1', 1024, () => console.log((server.address() as AddressInfo).port));
process.on('SIGTERM', () => process.exit(0));
