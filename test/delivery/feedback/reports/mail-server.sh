#!/bin/bash
# Runs one mail server of Debian in a throw-away copy of this machine's file system, with every message relayed to a next
# hop on loopback. make-reports.ts starts it: mail-server.sh SERVER NEXT_HOP_PORT LISTEN_PORT. It needs root and a Debian
# package archive; nothing outside of the copy is changed, and the copy is gone when the script ends.
set -eu
server=$1 next=$2 listen=$3
copy=$(mktemp -d /tmp/postern-reports-XXXXXX)
mount -t tmpfs tmpfs "$copy"
mkdir "$copy/changed" "$copy/work" "$copy/root"
mount -t overlay -o "lowerdir=/,upperdir=$copy/changed,workdir=$copy/work" overlay "$copy/root"
mount --rbind /proc "$copy/root/proc"
mount --rbind /dev "$copy/root/dev"
cat > "$copy/root/run-server" <<INNER
#!/bin/bash
set -eu
export DEBIAN_FRONTEND=noninteractive
# Otherwise the programs would be started when they are installed, and write this machine's name into their reports.
printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d; chmod 755 /usr/sbin/policy-rc.d
echo mx.example.net > /etc/mailname
printf '127.0.0.1 localhost mx.example.net mx\n' > /etc/hosts
install() { apt-get install -y --no-install-recommends "\$@" >/dev/null 2>&1; }
case $server in
postfix)
  postconf -e 'compatibility_level=3.6' 'myhostname=mx.example.net' 'mydestination=' 'mynetworks=127.0.0.0/8' \
    'relayhost=[127.0.0.1]:$next' 'smtp_host_lookup=native' 'smtp_dns_support_level=disabled' 'alias_maps=' \
    'local_recipient_maps=' 'inet_interfaces=127.0.0.1' 'inet_protocols=ipv4' 'maximal_queue_lifetime=6s' \
    'bounce_queue_lifetime=1h' 'delay_warning_time=2s' 'minimal_backoff_time=1s' 'maximal_backoff_time=2s' \
    'queue_run_delay=1s' 'maillog_file=/var/log/postfix.log' 'append_dot_mydomain=no' 'mailbox_size_limit=0' \
    'transport_maps=inline:{{nothing.invalid=smtp:nothing.invalid}}' 'smtp_destination_recipient_limit=10'
  postconf -M# smtp/inet || true
  postconf -M '127.0.0.1:$listen/inet=127.0.0.1:$listen inet n - n - - smtpd'
  postconf -F '*/unix/chroot=n'
  exec postfix start-fg
  ;;
exim)
  install exim4-daemon-light
  cat > /etc/exim4/exim4.conf <<CONF
primary_hostname = mx.example.net
daemon_smtp_ports = $listen
local_interfaces = 127.0.0.1
acl_smtp_rcpt = all
acl_smtp_data = all
delay_warning = 2s
disable_ipv6 = true
tls_advertise_hosts =
prdr_enable = false
begin acl
all:
  accept
begin routers
looked_up:
  driver = dnslookup
  domains = *.invalid
  transport = out
  no_more
next:
  driver = manualroute
  transport = out
  route_list = * 127.0.0.1
  self = send
begin transports
out:
  driver = smtp
  port = $next
  allow_localhost
  hosts_avoid_tls = *
begin retry
* * F,6s,1s
CONF
  exec exim4 -bdf -q2s
  ;;
sendmail)
  install sendmail-bin sendmail-cf m4
  cd /etc/mail
  cat > sendmail.mc <<CONF
include(\\\`/usr/share/sendmail/cf/m4/cf.m4')dnl
OSTYPE(\\\`debian')dnl
define(\\\`confDOMAIN_NAME', \\\`mx.example.net')dnl
define(\\\`SMART_HOST', \\\`relay:[127.0.0.1]')dnl
define(\\\`RELAY_MAILER_ARGS', \\\`TCP \\\$h $next')dnl
define(\\\`confTO_QUEUERETURN', \\\`6s')dnl
define(\\\`confTO_QUEUEWARN', \\\`2s')dnl
define(\\\`confTO_IDENT', \\\`0')dnl
FEATURE(\\\`accept_unresolvable_domains')dnl
FEATURE(\\\`promiscuous_relay')dnl
FEATURE(\\\`nocanonify')dnl
DAEMON_OPTIONS(\\\`Port=$listen, Addr=127.0.0.1, Name=MTA')dnl
MAILER(\\\`local')dnl
MAILER(\\\`smtp')dnl
CONF
  m4 sendmail.mc > sendmail.cf
  touch local-host-names trusted-users; mkdir -p /var/run/sendmail /var/spool/mqueue; chown root:smmta /var/spool/mqueue; chmod 700 /var/spool/mqueue; newaliases || true
  exec /usr/libexec/sendmail/sendmail -bD -q1s
  ;;
opensmtpd)
  install opensmtpd
  cat > /etc/smtpd.conf <<CONF
queue ttl 6s
bounce warn-interval 2s
listen on 127.0.0.1 port $listen hostname mx.example.net
action "next" relay host smtp://127.0.0.1:$next
match from any for any action "next"
CONF
  exec smtpd -d
  ;;
dma)
  install dma
  printf 'SMARTHOST 127.0.0.1\nPORT $next\nMAILNAME mx.example.net\nSPOOLDIR /var/spool/dma\n' > /etc/dma/dma.conf
  while read -r cause; do
    sed "s/CAUSE/\$cause/g" /message | dma -f "b+\$cause@bounces.platform.example" "\$cause@example.net"
  done < /causes
  sleep 1000
  ;;
nullmailer)
  install nullmailer
  echo mx.example.net > /etc/nullmailer/me
  echo '127.0.0.1 smtp --port=$next' > /etc/nullmailer/remotes
  printf '1\n' > /etc/nullmailer/pausetime
  while read -r cause; do
    sed "s/CAUSE/\$cause/g" /message | /usr/sbin/sendmail -f "b+\$cause@bounces.platform.example" "\$cause@example.net"
  done < /causes
  exec /usr/sbin/nullmailer-send
  ;;
esac
INNER
cp "$(dirname "$0")/message.txt" "$copy/root/message"
cp "$(dirname "$0")/causes.txt" "$copy/root/causes"
# Not exec: when this shell, the first process of its namespace, is ended, all that the server started ends with it.
chroot "$copy/root" bash /run-server
