// The codes of the v4 API (D45, D82). Every failure under /client/v4 names its reason by one of these, so that an unknown code
// does not compile. The tables with the status and texts of each code are in other folders: the rejection table of the policy
// has the tokens, the rules of proxy applications have the numbers without a token.

/** The tokens that a `message` may begin with. */
export type V4Token =
  | 'E_HEADER_NOT_ALLOWED'
  | 'E_HEADER_USE_API_FIELD'
  | 'E_HEADER_VALUE_INVALID'
  | 'E_HEADER_VALUE_TOO_LONG'
  | 'E_HEADER_NAME_INVALID'
  | 'E_HEADERS_TOO_LARGE'
  | 'E_HEADERS_TOO_MANY'
  | 'E_VALIDATION_ERROR'
  | 'E_FIELD_MISSING'
  | 'E_MAIL_LOOP'
  | 'E_TOO_MANY_RECIPIENTS'
  | 'E_TOO_MANY_ATTACHMENTS'
  | 'E_SENDER_NOT_VERIFIED'
  | 'E_RECIPIENT_SUPPRESSED'
  | 'E_CONTENT_TOO_LARGE'
  | 'E_RATE_LIMIT_EXCEEDED'
  | 'E_DAILY_LIMIT_EXCEEDED'
  | 'E_NO_ROOM'
  | 'E_INTERNAL_SERVER_ERROR'
  | 'E_UNAUTHORIZED'
  | 'E_FORBIDDEN'
  | 'E_NOT_FOUND'
  | 'E_METHOD_NOT_ALLOWED'
  | 'E_UNSUPPORTED_MEDIA_TYPE'
  | 'E_IDEMPOTENCY_CONFLICT';

/** The numbers of the tokens (D45); several tokens share one. */
export type TokenNumber = 10000 | 10001 | 10002 | 10003 | 10004 | 10101 | 10102 | 10200 | 10202 | 10203;

/** The numbers of the rules of proxy applications, which have no token (D82). */
export type RuleCode =
  | 10002
  | 10012
  | 11000
  | 11001
  | 11002
  | 11004
  | 11014
  | 11018
  | 11019
  | 11026
  | 11033
  | 11034
  | 11041
  | 11042
  | 11043
  | 11044
  | 11045
  | 11050
  | 12005
  | 13002
  | 16001;

/** Every `code` that an item of `errors` may have. */
export type V4Number = TokenNumber | RuleCode;
