# syntax=docker/dockerfile:1
FROM node:24-bookworm-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# The image brings its own Node, so the optional packages that carry one stay out.
RUN npm ci --omit=dev --omit=optional

FROM node:24-bookworm-slim
ENV NODE_ENV=production HOST=0.0.0.0 DATABASE_URL=sqlite:/data/animal-store.db
WORKDIR /app
RUN mkdir /data && chown node:node /data
COPY --from=dependencies /app/node_modules ./node_modules
COPY package.json openapi.yaml openapi.quickstart.yaml ./
COPY migrations ./migrations
COPY src ./src
USER node
VOLUME /data
EXPOSE 3000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s CMD ["node", "src/cli.ts", "health"]
CMD ["node", "src/main.ts"]
