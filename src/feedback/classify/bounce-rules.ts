// The table that says what a failure means for the next message to the same recipient. The first rule that fits decides, so
// status codes come before words. Only `hard` puts an address on the suppression list, and a rule is hard only where the words
// or the code say that nobody is there.

import type { BounceClass } from '../../events/mail-event.ts';

/** What is known of a failure. */
export interface DeliveryFailure {
  /** The enhanced status code (RFC 3463); undefined where there is none, or one that says nothing (`5.0.0`). */
  readonly status: string | undefined;
  /** The words of the server that refused, with its reply code. */
  readonly words: string;
}

/** A row of the table. */
export interface BounceRule {
  readonly class: BounceClass;
  /** The status codes that it fits, wholly. */
  readonly status?: RegExp;
  /** The words that it fits. Where both stand, both must fit. */
  readonly words?: RegExp;
}

const nobody =
  /(?:user|recipient|mailbox|account|address|alias|e-?mail)[^.;]{0,40}?\b(?:unknown|not (?:be )?found|(?:does|do)(?: not|n't) exist|not exist|(?:is )?in(?:valid|active)|disabled|no longer|is not (?:known|a valid|valid|here)|has been (?:disabled|closed|deleted|suspended))|\b(?:unknown|no such|invalid|nonexist[ae]nt|undeliverable|bad) (?:local )?(?:user|recipient|mailbox|account|address|alias|e-?mail|part)|no mailbox here by that name|(?:sorry, )?no mailbox|not our customer|(?:does|do) not have an account|isn't in (?:.{0,40})list|not listed in|user (?:doesn't|does not) have|no valid recipients?|recipient (?:address )?rejected: (?:user|unknown|undeliverable)|addressee unknown|empf(?:ä|ae)nger (?:unbekannt|existiert nicht)|unbekannter (?:empf|benutzer)|adressat unbekannt|(?:benutzer|postfach|adresse)[^.;]{0,30}(?:unbekannt|existiert nicht|nicht gefunden)|(?:utilisateur|destinataire|adresse|bo[iî]te)[^.;]{0,30}(?:inconnue?|inexistante?|n'existe pas|introuvable)|(?:usuario|destinatario|buz[oó]n)[^.;]{0,30}(?:desconocido|no existe|inexistente)|utente (?:sconosciuto|inesistente)|(?:onbekende gebruiker|gebruiker onbekend)|(?:ユーザー?|宛先|メールアドレス|受信者)[^。]{0,30}(?:存在しません|見つかりません|不明|存在しない)|该?(?:用户|邮箱)不存在/iu;

const noDomain =
  /(?:host|domain)(?: or domain)?(?: name)? (?:unknown|not found|(?:does not|doesn't) exist)|unknown host|nxdomain|no such (?:host|domain)|domain (?:\S{1,255} )?(?:does not|doesn't) exist|unrouteable (?:mail domain|address)|unable to look up host|name or service not known|all relevant mx records point to non-existent|null mx|does not accept (?:e-?)?mail|host inconnu|unbekannte domain|ホスト(?:名)?が見つかりません/iu;

const full =
  /(?:mail ?box|quota|inbox|storage|disk ?space|maildir|account|user|postfach|bo[iî]te|buz[oó]n)[^.;]{0,40}?(?:full|exceed|over|insufficient|exhausted|voll|pleine|lleno|[üu]berschritten|d[ée]pass)|over ?(?:the )?quota|quota (?:is )?(?:exceeded|violation|full)|exceed(?:s|ed|ing)? (?:the |its |their |storage |mailbox |disk )*(?:quota|allocation|space)|not enough (?:storage|disk)? ?space|out of (?:disk|storage)|speicherplatz|容量|メールボックス(?:が|は)(?:いっぱい|満杯)/iu;

const unwanted =
  /\bspam\b|\bspf\b|\bdkim\b|\bdmarc\b|block(?:ed|ing|list)|black ?list|deny ?list|\b(?:rbl|dnsbl)\b|reputation|policy|content (?:rejected|filter)|\bvirus\b|malware|unsolicited|phish|banned|administrative(?:ly)? prohibit|relay(?:ing)? (?:access )?(?:denied|not permitted|prohibited)|(?:not permitted|unable|not allowed) to relay|access denied|not authori[sz]ed|rejected (?:by|for|due)|too (?:large|big)|size (?:limit )?exceed|exceeds? (?:the )?(?:maximum )?(?:message )?size|message size|attachment|abgelehnt|refus[ée]|拒否/iu;

/** Words about who sent the message or from where: nothing is said of the recipient, though "not found" may stand there. */
const ofSender =
  /sender(?:'s)? (?:address |domain |verif|rejected|denied|blocked|is not|host)|return[- ]?path|envelope[- ]?from|mail from|helo\b|ehlo\b|client host|reverse (?:dns|hostname|lookup)|\bptr\b|your (?:ip|host|server|domain)/i;

const notNow =
  /try again|temporar|time(?:d)? ?out|connection (?:refused|reset|timed|lost|dropped)|no route to host|network is unreachable|greylist|graylist|throttl|too many|rate limit|retry (?:time|timeout)|too old|expired|could not be delivered for|deferred|busy|loop|hop count|später|ultérieurement/iu;

/**
 * The rules, in the order in which they are asked.
 * RFC 3463 and the registry of enhanced status codes (RFC 5248) say what the codes mean.
 */
export const bounceRules = {
  '4.x.x': { class: 'soft', status: /^4\..*$/ },
  'mailbox-full': { class: 'soft', status: /^5\.2\.2$/ },
  'no-such-user': { class: 'hard', status: /^5\.1\.(?:1|3|6)$/ },
  'mailbox-disabled': { class: 'hard', status: /^5\.2\.1$/ },
  'no-such-domain': { class: 'hard', status: /^5\.1\.(?:2|10)$/ },
  'sender-refused': { class: 'policy', status: /^5\.1\.(?:7|8)$/ },
  'too-large': { class: 'policy', status: /^5\.(?:2\.3|3\.4)$/ },
  'security-or-policy': { class: 'policy', status: /^5\.7\.\d+$/ },
  content: { class: 'policy', status: /^5\.6\.\d+$/ },
  'loop-or-expired': { class: 'soft', status: /^5\.4\.(?:6|7)$/ },
  'words-sender': { class: 'policy', words: ofSender },
  'words-full': { class: 'soft', words: full },
  'words-no-such-domain': { class: 'hard', words: noDomain },
  'words-no-such-user': { class: 'hard', words: nobody },
  'words-policy': { class: 'policy', words: unwanted },
  'words-not-now': { class: 'soft', words: notNow },
} as const satisfies Record<string, BounceRule>;

/** The name of the rule that decided; `delayed` and `undecided` stand for no row. */
export type BounceRuleName = keyof typeof bounceRules | 'delayed' | 'undecided';
