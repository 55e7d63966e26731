# The image: the sources as plain JavaScript, with every line where it was, and their production packages. Node could run the TypeScript
# itself, but takes 40 MiB more to remove its types at a first start.
# Runs as user node (1000) on a read-only root file system; what it writes goes to /data, /certs and /tmp.
ARG NODE_IMAGE=docker.io/library/node:24-bookworm-slim

FROM ${NODE_IMAGE} AS packages
WORKDIR /app
COPY package.json package-lock.json ./
# --omit=optional: the optional packages are Node binaries for machines without one. --workspaces=false: the client is a
# package of its own, which the gateway does not use. The last line drops what only editors and people read; licence
# texts stay.
RUN npm ci --workspaces=false --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund \
  && find node_modules -type f \( -name '*.map' -o -name '*.d.ts' -o -name '*.d.mts' -o -name '*.d.cts' \
       -o -iname 'readme*' -o -iname 'changelog*' -o -iname 'history.md' \) -delete

FROM ${NODE_IMAGE} AS program
WORKDIR /app
COPY deploy/plain-javascript.mjs ./deploy/
COPY src ./typescript
COPY packages/policy/src ./policy
RUN node --disable-warning=ExperimentalWarning deploy/plain-javascript.mjs typescript src \
  && node --disable-warning=ExperimentalWarning deploy/plain-javascript.mjs policy packages/policy/src

FROM ${NODE_IMAGE}
LABEL org.opencontainers.image.title="postern" \
      org.opencontainers.image.description="Outbound mail gateway" \
      org.opencontainers.image.licenses="MIT"
# The mount points belong to node, so that a fresh volume does too.
RUN install -d -o node -g node -m 0700 /data /certs
WORKDIR /app
COPY --from=packages /app/node_modules ./node_modules
COPY package.json LICENSE ./
# Examples to copy from. No configuration is in force before one is mounted: a start without it ends with 78.
COPY config/examples ./config/examples
COPY --from=program /app/src ./src
# The console judges in the browser with it.
COPY --from=program /app/packages/policy/src ./packages/policy/src
# `postern COMMAND` inside the container; the file is executable because of the mode in the repository.
RUN ln -s /app/src/start.mjs /usr/local/bin/postern
ENV NODE_ENV=production \
    POSTERN_CONFIG=/etc/postern/postern.yaml \
    POSTERN_BIND=0.0.0.0 \
    POSTERN_DATA_DIR=/data \
    POSTERN_CERTS_DIR=/certs
USER node
VOLUME ["/data", "/certs"]
# SMTP with STARTTLS, SMTP over TLS, HTTP, HTTPS
EXPOSE 2587 2465 8080 8443
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=10s --start-period=20s --retries=3 CMD ["node", "/app/src/start.mjs", "health"]
# Exec form: Postern is process 1 and gets SIGTERM itself (D97).
ENTRYPOINT ["node", "/app/src/start.mjs"]
CMD ["serve"]
