// postern serve: the gateway in the foreground until SIGTERM or SIGINT (D95, D97).

import { join } from 'node:path';
import { errorMessage } from '../base/errors.ts';
import { type Logger, openLog } from '../base/log.ts';
import { type Made, prepare } from '../bootstrap.ts';
import { type Config, loadConfig } from '../config.ts';
import { type Gateway, openGateway } from '../gateway.ts';
import { renderBanner } from './banner.ts';
import { configOption, defineCommand } from './command.ts';

/** Resolves at the first signal; a second one ends the process at once. */
function untilSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    const onSignal = (signal: NodeJS.Signals): void => {
      resolve(signal);
      process.once(signal, () => process.exit(1));
    };
    process.once('SIGTERM', onSignal);
    process.once('SIGINT', onSignal);
  });
}

/** Anything that nobody caught: the spool is safe on disk at every moment, so the honest end is to say why and stop. */
function dieOnSurprise(log: Logger, flush: () => void): void {
  process.on('uncaughtException', (error) => {
    log.fatal({ err: error }, 'an unexpected error ends the process');
    flush();
    process.exit(1);
  });
}

function banner(config: Config, gateway: Gateway, made: Made): string | undefined {
  if (made.token === undefined) return undefined;
  const listener = config.smtp.listeners.find(({ tls, credential }) => tls === 'starttls' && !credential);
  const route = config.delivery.routes.at(-1);
  const account = config.accounts.find(({ name }) => name === made.token?.account);
  return renderBanner({
    token: made.token.token,
    account: made.token.account,
    domain: account?.sendingDomains[0]?.name ?? 'example.com',
    listening: gateway.listening,
    listenerName: listener?.name ?? '',
    certificateFile: join(config.certsDir, 'tls', config.smtp.hostname, 'fullchain.pem'),
    ...(route?.type === 'capture' ? { captureFolder: route.folder } : {}),
  });
}

/** The command. */
export const serveCommand = defineCommand({
  name: 'serve',
  summary: 'Run the gateway in the foreground until SIGTERM',
  synopsis: '',
  arguments: { min: 0, max: 0 },
  details: `With the shipped configuration: SMTP on 127.0.0.1:2587 (STARTTLS) and 127.0.0.1:2465 (TLS), health on
127.0.0.1:8080, mail captured into data/capture/new; keys, a certificate and a token are made at the first start.
POSTERN_RELAY=smtp://host:port relays for real. The environment's POSTERN_* wins over the file; docs/operations.md
lists it all. SIGTERM stops accepting, finishes what is in flight and exits 0.`,
  options: configOption,
  examples: ['postern serve', 'POSTERN_RELAY=smtp://127.0.0.1:1025 postern serve', 'postern serve --config /etc/postern/postern.yaml'],
  exitCodes: { 1: 'a listener or the database could not be opened', 78: 'the configuration is wrong' },
  run: async ({ options }, io) => {
    const config = loadConfig({ ...(options.config === undefined ? {} : { file: options.config }), env: io.env, cwd: io.cwd });
    const { log, flush } = openLog(config.log.level);
    dieOnSurprise(log, flush);
    try {
      const made = await prepare(config);
      const gateway = await openGateway({ config, keys: made.keys, log });
      const signalled = untilSignal();
      log.info({ listeners: gateway.listening, dataDir: config.dataDir }, 'listening');
      const text = banner(config, gateway, made);
      if (text !== undefined) io.stderr.write(text);
      const signal = await signalled;
      log.info({ signal, drainSeconds: config.drainSeconds }, 'draining');
      await gateway.stop();
      log.info('stopped');
      return 0;
    } catch (error) {
      log.debug({ err: error }, errorMessage(error));
      throw error;
    } finally {
      flush();
    }
  },
});
