import { errorCode, errorMessage } from '../errors.ts';

/**
 * Tells why an address cannot be listened on: the system's reason, and what to change where the port is taken.
 * @param setting the setting of the address, with the variable that wins over it: `http.listen, or POSTERN_HTTP_PORT`
 */
export function listenFault(cause: unknown, setting: string): string {
  const reason = errorMessage(cause);
  if (errorCode(cause) !== 'EADDRINUSE') return reason;
  return `${reason}. Something listens there already: end it, or change ${setting}`;
}
