// Which modules of the gateway, and which packages, the policy has something else for: by what an import says, or by the path of the
// file below the gateway's src. The bundler of the package and the console both read it.

/** The files of this folder by what they stand for. */
export const seams: Readonly<Record<string, string>> = {
  'node:buffer': 'platform',
  'node:module': 'platform',
  'node:url': 'platform',
  'iconv-lite': 'charsets',
  'ipaddr.js': 'ip-address',
  typebox: 'type',
  'nodemailer/lib/mime-node': 'mime-node',
  'base/schema-judge': 'schema-judge',
  'base/yield-to-event-loop': 'turns',
  'mail/return-token': 'tokens',
};
