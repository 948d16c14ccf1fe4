// A chat with Anthropic's SDK in front of byref's HTTP service: big results go by reference.
// npm ci && npm run types && npm run build && npm start "Which region has the highest sum?"   (BYREF_URL, BYREF_TOKEN, ANTHROPIC_API_KEY)
import Anthropic from "@anthropic-ai/sdk";
import createClient from "openapi-fetch";
import type { paths } from "./byref.js";
import { definitions, run } from "./shop.js";

const { BYREF_URL, BYREF_TOKEN } = process.env;
const byref = createClient<paths>({ baseUrl: BYREF_URL, headers: { Authorization: `Bearer ${BYREF_TOKEN}` } });
const params = { path: { session: "typescript-example" } };
const format = "anthropic" as const;

async function answer({ id: call_id, name, input }: Anthropic.ToolUseBlock, own: Set<string>, isWhole: boolean) {
  const args = input as Record<string, unknown>;
  if (!isWhole) {
    const body = { output: "not run: your message was cut off inside its calls", tool: name, call_id, is_error: true, format };
    return byref.POST("/v1/sessions/{session}/process", { params, body });
  }
  if (own.has(name)) {
    return byref.POST("/v1/sessions/{session}/call", { params, body: { name, arguments: args, call_id, format } });
  }
  const schema = definitions.find((tool) => tool.name === name)?.input_schema;
  const asked = { arguments: args, schema, tool: name, call_id };
  const resolved = await byref.POST("/v1/sessions/{session}/resolve", { params, body: asked });
  const output = resolved.data ? run(name, resolved.data.arguments as Record<string, unknown>) : resolved.error.detail;
  const body = { output, tool: name, call_id, arguments: args, is_error: !resolved.data, format };
  return byref.POST("/v1/sessions/{session}/process", { params, body });
}

async function chat(anthropic: Anthropic, messages: Anthropic.MessageParam[]) {
  const opened = await byref.PUT("/v1/sessions/{session}", { params, body: { model: "claude-sonnet-5" } });
  if (!opened.data) throw new Error(opened.error.detail);
  const own = new Set(opened.data.tools);
  const listed = await byref.GET("/v1/sessions/{session}/tools", { params: { ...params, query: { format } } });
  const tools = [...definitions, ...(listed.data?.tools as Anthropic.Tool[])];
  while (true) {
    const reply = await anthropic.messages.create({ model: "claude-sonnet-5", max_tokens: 4096, messages, tools });
    await byref.POST("/v1/sessions/{session}/usage", { params, body: { usage: { ...reply.usage }, request_id: reply.id } });
    if (reply.content.length) messages.push({ role: "assistant", content: reply.content }); // an empty one would be refused
    const calls = reply.content.filter((block) => block.type === "tool_use");
    if (!calls.length) return console.log(reply.content.map((block) => ("text" in block ? block.text : "")).join(""));
    const isWhole = reply.stop_reason === "tool_use"; // max_tokens may cut the last call off
    const answers = await Promise.all(calls.map((call) => answer(call, own, isWhole)));
    const content = answers.flatMap(({ data }) => (data?.message as { content: Anthropic.ToolResultBlockParam[] }).content);
    messages.push({ role: "user", content });
  }
}

await chat(new Anthropic(), [{ role: "user", content: process.argv[2] ?? "Which region has the highest sum?" }]);
