// A server of the official TypeScript package whose calls hang in its first process and are answered in the next:
// `node restarted.mjs MODULES KIND PORT MARK`. KIND: many, one, sse or stdio. MARK is a file that the first process makes.
import { randomUUID } from "node:crypto";
import { appendFileSync, existsSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";

const [modules, kind, port, mark] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { McpServer } = require("@modelcontextprotocol/sdk/server/mcp.js");
const { SSEServerTransport } = require("@modelcontextprotocol/sdk/server/sse.js");
const { StdioServerTransport } = require("@modelcontextprotocol/sdk/server/stdio.js");
const { StreamableHTTPServerTransport } = require("@modelcontextprotocol/sdk/server/streamableHttp.js");

const first = !existsSync(mark);
appendFileSync(mark, "");

function numbers() {
  const server = new McpServer({ name: "numbers", version: "1" });
  for (const [name, idempotentHint] of [["once", false], ["again", true]]) {
    server.registerTool(name, { description: name, annotations: { idempotentHint } }, async () => {
      appendFileSync(mark, `${first ? "first" : "second"} ${name}\n`);
      if (first) await new Promise(() => {});
      return { content: [{ type: "text", text: "done" }] };
    });
  }
  return server;
}

const sessions = new Map();

async function streamable(request, response) {
  const id = request.headers["mcp-session-id"];
  let transport = kind === "one" ? sessions.get("one") : sessions.get(id);
  if (!transport && id !== undefined && kind === "many") {
    response.writeHead(400, { "content-type": "application/json" });
    const error = { code: -32000, message: "Bad Request: No valid session ID provided" };
    response.end(JSON.stringify({ jsonrpc: "2.0", error, id: null }));
    return;
  }
  if (!transport) {
    const opened = (session) => sessions.set(kind === "one" ? "one" : session, transport);
    transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized: opened });
    await numbers().connect(transport);
  }
  await transport.handleRequest(request, response);
}

async function sse(request, response) {
  const url = new URL(request.url, "http://127.0.0.1");
  if (request.method === "GET") {
    const transport = new SSEServerTransport("/messages", response);
    sessions.set(transport.sessionId, transport);
    await numbers().connect(transport);
    return;
  }
  const transport = sessions.get(url.searchParams.get("sessionId"));
  if (transport) await transport.handlePostMessage(request, response);
  else response.writeHead(400).end("No transport found for sessionId");
}

if (kind === "stdio") await numbers().connect(new StdioServerTransport());
else createServer(kind === "sse" ? sse : streamable).listen(Number(port), "127.0.0.1");
