// What the npm package `openai` does with a gateway: `node openai_sdk.mjs CASE URL` prints what came of one case as JSON.
import OpenAI, { APIError } from "openai";

const [name, url] = process.argv.slice(2);
const client = new OpenAI({ apiKey: "-", baseURL: `${url}/v1`, maxRetries: 2 });
const model = "sim";
const messages = [{ role: "user", content: "Hello" }];
const look = {
  type: "function",
  function: {
    name: "look",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    parse: JSON.parse,
    function: ({ city }) => `In ${city} it is SUNNY-9.`,
  },
};
const { parse: _parse, function: _run, ...lookAtWire } = look.function;

const cases = {
  async chatWhole() {
    const answer = await client.chat.completions.create({ model, messages });
    return { text: answer.choices[0].message.content, total: answer.usage.total_tokens };
  },
  async chatStreamed() {
    const stream = client.chat.completions.stream({ model, messages, stream_options: { include_usage: true } });
    let text = "";
    stream.on("content", (delta) => (text += delta));
    const answer = await stream.finalChatCompletion();
    return { text, same: answer.choices[0].message.content === text, total: answer.usage.total_tokens };
  },
  async chatTools() {
    const runner = client.chat.completions.runTools({ model, messages, tools: [look] });
    return { text: await runner.finalContent() };
  },
  async chatToolsStreamed() {
    const runner = client.chat.completions.runTools({ model, messages, tools: [look], stream: true });
    return { text: await runner.finalContent() };
  },
  async responsesWhole() {
    const answer = await client.responses.create({ model, input: "Hello", store: false });
    return { text: answer.output_text, status: answer.status };
  },
  async responsesStreamed() {
    const stream = client.responses.stream({ model, input: "Hello", store: false });
    let text = "";
    stream.on("response.output_text.delta", (event) => (text += event.delta));
    const answer = await stream.finalResponse();
    return { text, same: answer.output_text === text, status: answer.status };
  },
  async responsesTools() {
    const tools = [{ type: "function", strict: true, ...lookAtWire }];
    const input = [{ role: "user", content: "Hello" }];
    const first = await client.responses.create({ model, input, tools, store: false });
    const calls = first.output.filter((item) => item.type === "function_call");
    input.push(...first.output);
    for (const call of calls) {
      const output = look.function.function(JSON.parse(call.arguments));
      input.push({ type: "function_call_output", call_id: call.call_id, output });
    }
    const second = await client.responses.create({ model, input, tools, store: false });
    return { calls: calls.length, text: second.output_text };
  },
  async responsesParsed() {
    const schema = { type: "object", properties: { age: { type: "integer" } }, required: ["age"], additionalProperties: false };
    const format = { type: "json_schema", name: "person", schema, strict: true };
    const answer = await client.responses.parse({ model, input: "Who?", text: { format }, store: false });
    return { age: typeof answer.output_parsed.age };
  },
  async models() {
    const found = [];
    for await (const each of client.models.list()) found.push(each.id);
    return { found };
  },
  async refused() {
    try {
      await client.chat.completions.create({ model, messages: [{ role: "wizard", content: "x" }] });
    } catch (error) {
      return { kind: error.constructor.name, status: error.status, param: error.param, id: Boolean(error.requestID) };
    }
  },
  async busy() {
    try {
      await client.chat.completions.create({ model, messages });
    } catch (error) {
      return { kind: error.constructor.name, status: error.status };
    }
  },
  async brokenOff() {
    let text = "";
    try {
      for await (const chunk of await client.chat.completions.create({ model, messages, stream: true }))
        text += chunk.choices[0]?.delta.content ?? "";
    } catch (error) {
      return { text, raised: error instanceof APIError };
    }
  },
};

console.log(JSON.stringify(await cases[name]()));
