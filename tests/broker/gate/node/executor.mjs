// An executor in another language, made from the Avro contract alone: `node executor.mjs SETTINGS`, a JSON object.
//
// It knows the folder of .avsc files, the names of the topics, and what docs/executors.md says of the protocol: a note
// on the disk before the effect, a permit for this process, the permit's time, and one report of three kinds. `till` is
// the file that is the downstream: a line for each effect. `dies_after`: it kills itself after so many effects.

import { createRequire } from "node:module";
import { randomUUID } from "node:crypto";
import * as fs from "node:fs";
import * as path from "node:path";

const asked = JSON.parse(process.argv[2]);
const require = createRequire(path.join(asked.modules, "x.js"));
const { CompressionCodecs, CompressionTypes, Kafka, Partitioners, logLevel } = require("kafkajs");
const avro = require("avsc");

// The gate writes batches in LZ4 frames, which the client library leaves to its user.
CompressionCodecs[CompressionTypes.LZ4] = () => ({ compress: unneeded, decompress: unframed });

function unneeded() {
  throw new Error("what is written here is not compressed");
}

async function unframed(frame) {
  const flags = frame[4];
  // Magic, flags, block size, checksum of the header; a content size and a dictionary id where the flags say so.
  let at = 7 + (flags & 8 ? 8 : 0) + (flags & 1 ? 4 : 0);
  const out = [];
  for (;;) {
    const size = frame.readUInt32LE(at);
    at += 4;
    if (size === 0) return Buffer.from(out);
    const length = size & 0x7fffffff;
    const block = frame.subarray(at, at + length);
    if (size >>> 31) for (const byte of block) out.push(byte);
    else unpacked(block, out);
    at += length + (flags & 16 ? 4 : 0);
  }
}

function unpacked(block, out) {
  let at = 0;
  const extended = (length) => {
    if (length === 15) {
      let more;
      do length += more = block[at++];
      while (more === 255);
    }
    return length;
  };
  while (at < block.length) {
    const token = block[at++];
    for (let left = extended(token >> 4); left > 0; left--) out.push(block[at++]);
    if (at >= block.length) return;
    const back = block.readUInt16LE(at);
    at += 2;
    for (let left = extended(token & 15) + 4; left > 0; left--) out.push(out[out.length - back]);
  }
}

// --- the contract: schemas, their fingerprints, and the single-object form (C3 01, fingerprint, datum) ---

const declared = new Map();
for (const folder of ["", "types", "claims"]) {
  for (const name of fs.readdirSync(path.join(asked.avsc, folder))) {
    if (!name.endsWith(".avsc")) continue;
    const schema = JSON.parse(fs.readFileSync(path.join(asked.avsc, folder, name), "utf8"));
    declared.set(`${schema.namespace}.${schema.name}`, schema);
  }
}

function inlined(schema, seen) {
  if (typeof schema === "string") {
    return declared.has(schema) && !seen.has(schema) ? inlined(declared.get(schema), seen) : schema;
  }
  if (Array.isArray(schema)) return schema.map((branch) => inlined(branch, seen));
  const whole = { ...schema };
  if (whole.name) seen.add(`${whole.namespace}.${whole.name}`);
  for (const part of ["items", "values"]) if (part in whole) whole[part] = inlined(whole[part], seen);
  if (whole.fields) whole.fields = whole.fields.map((field) => ({ ...field, type: inlined(field.type, seen) }));
  return whole;
}

// Avro's Parsing Canonical Form: full names, the attributes that change bytes, in a fixed order.
function canonical(schema) {
  if (typeof schema === "string") return JSON.stringify(schema);
  if (Array.isArray(schema)) return `[${schema.map(canonical).join(",")}]`;
  const parts = [];
  if (schema.name) parts.push(`"name":${JSON.stringify(schema.namespace ? `${schema.namespace}.${schema.name}` : schema.name)}`);
  if (!["record", "enum", "array", "map"].includes(schema.type)) return canonical(schema.type);
  parts.push(`"type":"${schema.type}"`);
  if (schema.fields) {
    const fields = schema.fields.map((one) => `{"name":${JSON.stringify(one.name)},"type":${canonical(one.type)}}`);
    parts.push(`"fields":[${fields.join(",")}]`);
  }
  if (schema.symbols) parts.push(`"symbols":[${schema.symbols.map((one) => JSON.stringify(one)).join(",")}]`);
  for (const part of ["items", "values"]) if (part in schema) parts.push(`"${part}":${canonical(schema[part])}`);
  return `{${parts.join(",")}}`;
}

const EMPTY = 0xc15d213aa4d7a795n;
const TABLE = Array.from({ length: 256 }, (_, number) => {
  let value = BigInt(number);
  for (let bit = 0; bit < 8; bit++) value = value & 1n ? (value >> 1n) ^ EMPTY : value >> 1n;
  return value;
});

function front(text) {
  let value = EMPTY;
  for (const byte of Buffer.from(text, "utf8")) value = (value >> 8n) ^ TABLE[Number((value ^ BigInt(byte)) & 0xffn)];
  const header = Buffer.from([0xc3, 0x01, 0, 0, 0, 0, 0, 0, 0, 0]);
  header.writeBigUInt64LE(value, 2);
  return header;
}

function record(name) {
  const schema = inlined(declared.get(`joingate.${name}`), new Set());
  return { type: avro.Type.forSchema(schema), front: front(canonical(schema)) };
}

const contract = Object.fromEntries(["Command", "Prepared", "Commit", "Abort", "InDoubt"].map((one) => [one, record(one)]));

function decoded(value) {
  const { type, front: header } = contract.Command;
  return value.subarray(0, 10).equals(header) ? type.fromBuffer(value.subarray(10)) : null;
}

// --- the journal: one line an event, on the disk before anything follows from it ---

const known = new Map(); // attempt -> "begun" or "ended"
const reports = new Map(); // claim id -> the report, until the broker has it
const journal = fs.openSync(asked.journal, "a+");

function note(...words) {
  fs.writeSync(journal, `${JSON.stringify(words)}\n`);
  fs.fsyncSync(journal);
  take(words);
}

function take([what, ...rest]) {
  if (what === "begun") known.set(rest[0], { state: "begun", intent: rest[1] });
  if (what === "report") {
    known.set(rest[0], { state: "ended" });
    reports.set(rest[1].claim_id, { kind: rest[2], claim: rest[1] });
  }
  if (what === "sent") reports.delete(rest[0]);
}

for (const line of fs.readFileSync(asked.journal, "utf8").split("\n")) {
  try {
    if (line) take(JSON.parse(line));
  } catch {
    break; // the torn end of a write that was never confirmed, and from which nothing followed
  }
}

// --- claims ---

const worker = randomUUID();
const kafka = new Kafka({ clientId: "node-teller", brokers: [asked.bootstrap_servers], logLevel: logLevel.ERROR });
const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner, idempotent: true });

function common(intentId) {
  return { claim_id: randomUUID(), intent_id: intentId, principal: "teller", signature: null, occurred_at: Date.now() };
}

async function send(kind, claim) {
  const { type, front: header } = contract[kind];
  const value = Buffer.concat([header, type.toBuffer(claim)]);
  await producer.send({ topic: `${asked.prefix}outcomes`, acks: -1, messages: [{ key: claim.intent_id, value }] });
}

// The report and the end of the note are one line, so that no crash falls between them.
async function report(attempt, kind, claim) {
  note("report", attempt, claim, kind);
  await deliver();
}

async function deliver() {
  for (const [claimId, { kind, claim }] of [...reports]) {
    await send(kind, claim);
    note("sent", claimId);
  }
}

// --- the effect ---

let left = asked.dies_after ?? 0;

async function act(command, untilMs) {
  const attempt = `${command.operation_id}/${command.attempt}`;
  if (known.has(attempt)) return;
  note("begun", attempt, command.intent_id);
  const about = { operation_id: command.operation_id, attempt: command.attempt, evidence: [] };
  if (performance.now() >= untilMs) {
    // The disk was slow: nothing was sent, and under a permit that is this process's own, that can be said.
    const last = command.kind === "PERMIT" ? ["Abort", { proof: "NOT_SENT", error: "the permit ran out" }] : ["InDoubt", { cause: "too late" }];
    return report(attempt, last[0], { ...common(command.intent_id), ...about, ...last[1] });
  }
  fs.appendFileSync(asked.till, `${command.action} ${command.operation_id} ${command.attempt} ${process.pid}\n`, { flush: true });
  if (--left === 0) process.kill(process.pid, "SIGKILL");
  await report(attempt, "Commit", {
    ...common(command.intent_id), ...about, external_id: `node-${command.operation_id}`, evidence: ["the till's own line"],
    idempotency_key: command.operation_id, caused_by: `${command.partition}/${command.ledger_seq}`, result: "",
  });
}

const permitsAsked = new Map(); // attempt -> when, on the monotonic clock
const epochs = new Map(); // ledger partition -> the highest epoch seen

async function take_command(command) {
  if (command.epoch < (epochs.get(command.partition) ?? 0)) return; // of a gate that was replaced
  epochs.set(command.partition, command.epoch);
  const attempt = `${command.operation_id}/${command.attempt}`;
  switch (command.kind) {
    case "PREPARE":
      if (known.has(attempt)) return;
      permitsAsked.set(attempt, performance.now());
      await send("Prepared", {
        ...common(command.intent_id), operation_id: command.operation_id, attempt: command.attempt,
        executor: "teller", worker, commitment_id: null,
      });
      return;
    case "PERMIT":
      if (command.worker !== worker || !permitsAsked.has(attempt)) return;
      await act(command, permitsAsked.get(attempt) + command.permit_ms);
      permitsAsked.delete(attempt);
      return;
    case "EXECUTE":
      if (Date.now() < command.act_until) await act(command, performance.now() + command.act_until - Date.now());
      return;
    case "WITHDRAW":
      permitsAsked.delete(attempt);
  }
}

// --- the run ---

await producer.connect();
for (const [attempt, { state, intent }] of known) {
  if (state !== "begun") continue;
  const [operationId, number] = attempt.split("/");
  await report(attempt, "InDoubt", {
    ...common(intent), operation_id: operationId, attempt: Number(number), evidence: [],
    cause: "the process ended between the start of the effect and its report",
  });
}
await deliver();

const consumer = kafka.consumer({ groupId: `${asked.prefix}executor.teller`, readUncommitted: false, sessionTimeout: 6000 });
await consumer.connect();
await consumer.subscribe({ topic: `${asked.prefix}commands.teller`, fromBeginning: true });
process.on("SIGTERM", async () => {
  await consumer.disconnect(); // what is under way ends first; its position is committed behind it
  await producer.disconnect();
  process.exit(0);
});
await consumer.run({
  autoCommit: false,
  eachMessage: async ({ topic, partition, message }) => {
    const command = decoded(message.value);
    if (command !== null) await take_command(command);
    await consumer.commitOffsets([{ topic, partition, offset: (BigInt(message.offset) + 1n).toString() }]);
  },
});
