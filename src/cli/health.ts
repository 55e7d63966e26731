import { request } from 'node:http';
import { type HostPort, reachable } from '../app/config/addresses.ts';
import { errorMessage } from '../base/errors.ts';
import { hostPort } from '../base/net/socket-address.ts';
import { defineCommand, fail, print } from './command/command.ts';

/** How long the server may take to answer, in milliseconds: less than a container's health check waits for the command. */
const patienceMs = 4000;

/** Asks for /readyz. @returns the HTTP status. @throws the system's error, or an error saying that no answer came */
function readiness({ host, port }: HostPort): Promise<number> {
  return new Promise((resolve, reject) => {
    // `agent: false` opens a connection that is closed after the answer, so that Node ends without waiting for it.
    const asked = request({ host, port, path: '/readyz', agent: false, timeout: patienceMs }, (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    });
    asked.on('timeout', () => asked.destroy(new Error(`no answer within ${patienceMs / 1000} s`)));
    asked.on('error', reject);
    asked.end();
  });
}

/** postern health asks the server of a configuration whether it is ready (D97), for health checks of containers and scripts. */
export const command = defineCommand({
  details: `Asks for /readyz on the address of http.listen, as file and environment have it. The health check of the container
image is this command.`,
  options: {},
  examples: ['postern health', 'postern health --config /etc/postern/postern.yaml'],
  exitCodes: { 1: 'it is not ready, or does not answer' },
  async run({ readConfig }, io) {
    const { listen } = readConfig().http;
    const address = reachable(listen);
    const url = `http://${hostPort(address.host, address.port)}/readyz`;
    const notReady = (why: string): number => fail(io, `Not ready: ${why}`);
    if (listen.port === 0)
      return notReady('http.listen has port 0, so that nobody knows which port the server has taken');
    try {
      const status = await readiness(address);
      if (status !== 200)
        return notReady(`${url} answers ${status}: it takes no mail, is still starting or is ending; its log says why`);
      return print(io, `Ready: ${url} answers 200`);
    } catch (error) {
      return notReady(`${url} does not answer: ${errorMessage(error)}`);
    }
  },
});
