import { errorCode, errorMessage } from '../errors.ts';

/** Tells why an address cannot be listened on. @param setting what says it: `http.listen, or POSTERN_HTTP_PORT` */
export function listenFault(cause: unknown, setting: string): string {
  const reason = errorMessage(cause);
  if (errorCode(cause) !== 'EADDRINUSE') return reason;
  return `${reason}. Something listens there already: end it, or change ${setting}`;
}
