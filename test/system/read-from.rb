# Reads From fields with Ruby's mail library. Standard input: a JSON array of header sections in base64. Prints one JSON
# array a header section: the addresses it sees.

require 'base64'
require 'json'
require 'mail'

JSON.parse($stdin.read).each do |head|
  puts JSON.dump([Mail.new(Base64.decode64(head)).from].flatten)
end
