// What the npm package `@google/genai` does with a gateway: `node genai_sdk.mjs CASE URL` prints what came of one case as JSON.
import { ApiError, GoogleGenAI } from "@google/genai";

const [name, url] = process.argv.slice(2);
const client = new GoogleGenAI({ apiKey: "-", httpOptions: { baseUrl: url } });
const model = "sim";
const parametersJsonSchema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const config = { tools: [{ functionDeclarations: [{ name: "look", description: "The weather.", parametersJsonSchema }] }] };

const cases = {
  async whole() {
    const answer = await client.models.generateContent({ model, contents: "Hello" });
    return { text: answer.text, finish: answer.candidates[0].finishReason };
  },
  async streamed() {
    let text = "";
    let last;
    for await (const chunk of await client.models.generateContentStream({ model, contents: "Hello" })) {
      text += chunk.text ?? "";
      last = chunk;
    }
    return { text, finish: last.candidates[0].finishReason, usage: last.usageMetadata.totalTokenCount > 5 };
  },
  async tools() {
    const contents = [{ role: "user", parts: [{ text: "Hello" }] }];
    const first = await client.models.generateContent({ model, contents, config });
    contents.push(first.candidates[0].content);
    const parts = first.functionCalls.map(({ id, name, args }) => ({
      functionResponse: { id, name, response: { output: `In ${args.city} it is SUNNY-9.` } },
    }));
    contents.push({ role: "user", parts });
    const second = await client.models.generateContent({ model, contents, config });
    return { calls: first.functionCalls.length, text: second.text };
  },
  async chat() {
    const chat = client.chats.create({ model });
    const first = await chat.sendMessage({ message: "Hello" });
    const second = await chat.sendMessage({ message: "And again" });
    return { texts: [first.text, second.text], turns: chat.getHistory().length };
  },
  async counted() {
    const counted = await client.models.countTokens({ model, contents: "Hello" });
    const answer = await client.models.generateContent({ model, contents: "Hello" });
    return { same: counted.totalTokens === answer.usageMetadata.promptTokenCount };
  },
  async refused() {
    try {
      await client.models.generateContent({ model: "nobody", contents: "Hello" });
    } catch (error) {
      return { raised: error instanceof ApiError, status: error.status };
    }
  },
};

console.log(JSON.stringify(await cases[name]()));
