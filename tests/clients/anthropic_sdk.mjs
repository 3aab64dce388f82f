// What the npm package `@anthropic-ai/sdk` does with a gateway: `node anthropic_sdk.mjs CASE URL` prints what came of one case as JSON.
import Anthropic, { APIError } from "@anthropic-ai/sdk";

const [name, url] = process.argv.slice(2);
const client = new Anthropic({ apiKey: "-", baseURL: url, maxRetries: 2 });
const model = "sim";
const asked = { model, max_tokens: 1000, messages: [{ role: "user", content: "Hello" }] };
const input_schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const look = { name: "look", description: "The weather of a city.", input_schema };
const weather = ({ city }) => `In ${city} it is SUNNY-9.`;
const textOf = (message) => message.content.filter((block) => block.type === "text").map((block) => block.text).join("");

const cases = {
  async whole() {
    const answer = await client.messages.create(asked);
    return { text: textOf(answer), stop: answer.stop_reason, id: Boolean(answer._request_id) };
  },
  async streamed() {
    const stream = client.messages.stream(asked);
    let text = "";
    stream.on("text", (delta) => (text += delta));
    const answer = await stream.finalMessage();
    return { text, same: textOf(answer) === text, stop: answer.stop_reason };
  },
  async tools() {
    const messages = [...asked.messages];
    const thinking = { type: "enabled", budget_tokens: 1024 };
    const request = { ...asked, max_tokens: 4000, messages, thinking, tools: [look] };
    const first = await client.messages.stream(request).finalMessage();
    const calls = first.content.filter((block) => block.type === "tool_use");
    const thought = first.content.filter((block) => block.type === "thinking").map((block) => block.signature.length > 0);
    messages.push({ role: "assistant", content: first.content });
    const results = calls.map((call) => ({ type: "tool_result", tool_use_id: call.id, content: weather(call.input) }));
    messages.push({ role: "user", content: results });
    const second = await client.messages.create(request);
    return { calls: calls.length, signed: thought, text: textOf(second) };
  },
  async toolRunner() {
    const tools = [{ ...look, type: "custom", run: weather, parse: (input) => input }];
    const answer = await client.beta.messages.toolRunner({ ...asked, tools });
    return { text: textOf(answer) };
  },
  async counted() {
    const counted = await client.messages.countTokens({ model, messages: asked.messages });
    const answer = await client.messages.create(asked);
    const { input_tokens, cache_creation_input_tokens, cache_read_input_tokens } = answer.usage;
    return { same: counted.input_tokens === input_tokens + (cache_creation_input_tokens ?? 0) + (cache_read_input_tokens ?? 0) };
  },
  async models() {
    const found = [];
    for await (const each of client.models.list()) found.push(each.id);
    return { found };
  },
  async refused() {
    try {
      await client.messages.create({ ...asked, messages: [{ role: "wizard", content: "x" }] });
    } catch (error) {
      return { kind: error.constructor.name, status: error.status, type: error.type, id: Boolean(error.requestID) };
    }
  },
  async busy() {
    try {
      await client.messages.create(asked);
    } catch (error) {
      return { kind: error.constructor.name, status: error.status, type: error.type };
    }
  },
  async brokenOff() {
    let text = "";
    try {
      for await (const event of await client.messages.create({ ...asked, stream: true }))
        if (event.type === "content_block_delta") text += event.delta.text ?? "";
    } catch (error) {
      return { text, raised: error instanceof APIError };
    }
  },
};

console.log(JSON.stringify(await cases[name]()));
