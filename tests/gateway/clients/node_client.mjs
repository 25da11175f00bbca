// Run by node with the openai package beside it: node_client.mjs URL KEY MODEL, prints JSON.
import OpenAI from "openai";

const [url, key, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0 });
const messages = [{ role: "user", content: "Hi" }];
const parameters = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
const tools = [{ type: "function", function: { name: "weather", parameters } }];
const results = {};

const { data, response } = await client.chat.completions.create({ model, messages }).withResponse();
results.plain = data.choices[0].message.content;
results.verdict = response.headers.get("modelpact-verdict");
results.streamed = "";
for await (const chunk of await client.chat.completions.create({ model, messages, stream: true })) {
  results.streamed += chunk.choices[0]?.delta?.content ?? "";
}
const called = await client.chat.completions.create({ model, messages, tools });
results.calls = called.choices[0].message.tool_calls.map((call) => JSON.parse(call.function.arguments));
const stream = client.chat.completions.stream({ model, messages, tools });
const final = await stream.finalChatCompletion();
results.streamedCalls = final.choices[0].message.tool_calls.map((call) =>
  JSON.parse(call.function.arguments),
);
const format = { type: "json_schema", json_schema: { name: "answer", schema: parameters, strict: true } };
const typed = await client.chat.completions.create({ model, messages, response_format: format });
results.schema = JSON.parse(typed.choices[0].message.content);
const image = { type: "image_url", image_url: { url: "https://example.com/a.png" } };
const seen = await client.chat.completions.create({
  model,
  messages: [{ role: "user", content: [image] }],
});
results.image = seen.choices[0].message.content;
if (model.startsWith("gpt")) {
  const made = await client.embeddings.create({ model: "text-embedding-3-small", input: "x" });
  results.embedding = made.data[0].embedding.length;
}
try {
  await client.chat.completions.create({ model: "openai/text-only", messages, tools });
} catch (error) {
  results.refused = { status: error.status, code: error.code };
}
const ask = (content, more = {}) =>
  client.chat.completions.create({ model, messages: [{ role: "user", content }], ...more });
try {
  await ask("Fail");
} catch (error) {
  results.failed = error.constructor.name;
}
try {
  for await (const _ of await ask("Break", { stream: true }));
} catch (error) {
  results.failedStream = error.message;
}
const declined = (await ask("Decline")).choices[0].message;
results.declined = `${declined.refusal} ${declined.content}`;
const thinks = model.startsWith("gpt") ? "gpt-5" : model;
const reasoned = await ask("Hi", { model: thinks, reasoning_effort: "low" });
results.reasoned = reasoned.choices[0].message.content;
const city = {
  type: "object",
  properties: { name: { type: "string" }, people: { type: "integer" } },
  required: ["name", "people"],
  additionalProperties: false,
};
const wanted = { type: "json_schema", json_schema: { name: "city", schema: city, strict: true } };
const emulated = await client.chat.completions
  .create({ model: "workload/emulated", messages, response_format: wanted })
  .withResponse();
results.emulated = JSON.parse(emulated.data.choices[0].message.content);
results.emulatedHeader = emulated.response.headers.get("modelpact-emulated");
const moved = model.startsWith("gpt") ? "substituted" : "carried-away";
const substituted = await client.chat.completions
  .create({ model: `workload/${moved}`, messages })
  .withResponse();
results.substituted = substituted.data.choices[0].message.content;
results.substitutedHeader = substituted.response.headers.get("modelpact-substituted");
console.log(JSON.stringify(results));
