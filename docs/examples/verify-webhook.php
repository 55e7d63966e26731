<?php
// Takes webhooks and verifies them: WEBHOOK_SECRET=whsec_... php -S 127.0.0.1:9000 verify-webhook.php
// Nothing has to be installed.

/** Gives the event of a request, or null where it is not from Postern, or too old. */
function verified(array $server, string $body): ?array
{
    $key = base64_decode(preg_replace('/^whsec_/', '', getenv('WEBHOOK_SECRET')));
    $id = $server['HTTP_WEBHOOK_ID'] ?? '';
    $timestamp = $server['HTTP_WEBHOOK_TIMESTAMP'] ?? '';
    if (!ctype_digit($timestamp) || abs(time() - (int) $timestamp) > 300) {
        return null;
    }
    $wanted = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$timestamp.$body", $key, true));
    foreach (explode(' ', $server['HTTP_WEBHOOK_SIGNATURE'] ?? '') as $given) {
        if (hash_equals($wanted, $given)) {
            return json_decode($body, true);
        }
    }
    return null;
}

$event = verified($_SERVER, file_get_contents('php://input'));
if ($event === null) {
    http_response_code(400);
    exit('wrong signature');
}
// An event may come twice: keep webhook-id where that would do harm.
error_log($_SERVER['HTTP_WEBHOOK_ID'] . ' ' . $event['type'] . ' ' . ($event['data']['recipient'] ?? ''));
http_response_code(204);
