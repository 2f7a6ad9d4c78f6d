import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type Ask, Hub, type Tell } from "./hub";

/** A server whose streams the test writes. */
class Server {
  readonly asked: URL[] = [];
  readonly streams: { send: (text: string) => void; close: () => void; isCut: boolean }[] = [];
  status = 200;

  fetch = (async (address: string, { signal }: { signal: AbortSignal }) => {
    this.asked.push(new URL(address));
    if (this.status !== 200) return new Response(null, { status: this.status });
    const stream = { send: (_: string) => {}, close: () => {}, isCut: false };
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        stream.send = (text) => controller.enqueue(new TextEncoder().encode(text));
        stream.close = () => controller.close();
        signal.addEventListener("abort", () => {
          stream.isCut = true;
          controller.error(new DOMException("cut", "AbortError"));
        });
      },
    });
    this.streams.push(stream);
    return new Response(body);
  }) as unknown as typeof fetch;

  get last() {
    const stream = this.streams.at(-1);
    if (!stream) throw new Error("there is no stream");
    return stream;
  }

  open(): void {
    this.last.send('event: open\ndata: {"time":1000000,"heartbeat_s":15}\n\n');
  }

  event(run: string, seq: number): void {
    this.last.send(`id: ${seq}\nevent: event\ndata: {"run":"${run}","event":{"seq":${seq}}}\n\n`);
  }
}

let server: Server;
let told: Tell[];
let hub: Hub;
const settle = (ms = 60) => vi.advanceTimersByTimeAsync(ms);
const ask = (message: Ask) => hub.ask(message);
const here = (tab: string) => ask({ type: "here", tab, root: "http://server/at/" });
const states = () => told.flatMap((each) => (each.type === "state" && !each.tab ? [each.state.is] : []));

beforeEach(() => {
  vi.useFakeTimers();
  server = new Server();
  told = [];
  hub = new Hub((message) => told.push(message), server.fetch);
});
afterEach(() => vi.useRealTimers());

describe("the hub of streams", () => {
  it("has one stream for all tabs, below the path of the server", async () => {
    here("a");
    here("b");
    await settle();
    server.open();
    await settle();
    expect(server.asked.map((url) => url.pathname + url.search)).toEqual(["/at/api/v1/stream?changes=true"]);
    expect(states()).toEqual(["live"]);
    here("c");
    expect(told.at(-2)).toMatchObject({ type: "state", tab: "c", state: { is: "live" } });
    expect(told.at(-1)).toMatchObject({ type: "server", tab: "c" });
  });

  it("opens the stream of another choice before it closes the old one", async () => {
    here("a");
    await settle();
    server.open();
    ask({ type: "follow", tab: "a", run: "r1", since: 7, lines: false });
    await settle();
    expect(server.asked.at(-1)?.searchParams.getAll("run")).toEqual(["r1@7"]);
    expect(server.streams[0]?.isCut).toBe(false);
    server.open();
    await settle();
    expect(server.streams[0]?.isCut).toBe(true);
    expect(states()).toEqual(["live", "live"]);
  });

  it("continues behind the last event after a loss, and says so", async () => {
    here("a");
    ask({ type: "follow", tab: "a", run: "r1", since: 0, lines: true });
    await settle();
    server.open();
    server.event("r1", 1);
    server.event("r1", 2);
    await settle();
    server.last.close();
    await settle(10);
    expect(states()).toEqual(["live", "lost"]);
    await settle(600);
    expect(server.asked.at(-1)?.searchParams.getAll("run")).toEqual(["r1@2"]);
    expect(server.asked.at(-1)?.searchParams.get("lines")).toBe("true");
    server.open();
    await settle();
    expect(states()).toEqual(["live", "lost", "live"]);
    const last = told.filter((each) => each.type === "state").at(-1);
    expect(last).toMatchObject({ state: { opened: 2 } });
  });

  it("waits longer after each failure, until it is asked to try now", async () => {
    server.status = 503;
    here("a");
    await settle(20_000);
    const tried = server.asked.length;
    expect(tried).toBeGreaterThan(3);
    expect(tried).toBeLessThan(8);
    server.status = 200;
    ask({ type: "retry", tab: "a" });
    await settle(0);
    server.open();
    await settle();
    expect(states().at(-1)).toBe("live");
  });

  it("takes a stream for lost that is silent for longer than two heartbeats", async () => {
    here("a");
    await settle();
    server.open();
    await settle(50_000);
    expect(states().slice(0, 2)).toEqual(["live", "lost"]);
  });

  it("begins a run again for a tab that needs earlier events", async () => {
    here("a");
    ask({ type: "follow", tab: "a", run: "r1", since: 90, lines: false });
    await settle();
    server.open();
    await settle();
    ask({ type: "follow", tab: "b", run: "r1", since: 10, lines: false });
    await settle();
    expect(server.asked.at(-1)?.searchParams.getAll("run")).toEqual(["r1@10"]);
    ask({ type: "follow", tab: "c", run: "r1", since: 50, lines: false });
    await settle();
    expect(server.asked).toHaveLength(2 + 1);
  });

  it("ends with the session, and does not try again", async () => {
    here("a");
    await settle();
    server.open();
    server.last.send('event: end\ndata: {"reason":"unauthenticated"}\n\n');
    await settle(60_000);
    expect(states()).toEqual(["live", "signed out"]);
    expect(server.asked).toHaveLength(1);
    here("b"); // a tab of a new session
    expect(told.at(-2)).toMatchObject({ type: "state", tab: "b", state: { is: "connecting" } });
    await settle();
    server.open();
    await settle();
    expect(states().at(-1)).toBe("live");
  });

  it("closes the stream when the last tab has left", async () => {
    here("a");
    here("b");
    await settle();
    server.open();
    await settle();
    ask({ type: "bye", tab: "a" });
    expect(server.last.isCut).toBe(false);
    ask({ type: "bye", tab: "b" });
    expect(server.last.isCut).toBe(true);
    await settle(60_000);
    expect(server.asked).toHaveLength(1);
    here("c");
    await settle();
    expect(server.asked).toHaveLength(2);
  });

  it("reads messages that come in pieces", async () => {
    here("a");
    ask({ type: "follow", tab: "a", run: "r1", since: 0, lines: false });
    await settle();
    const text = 'event: open\ndata: {"time":1}\n\nevent: changed\ndata: {"runs":["r1","r2"]}\n\n';
    for (const character of text) server.last.send(character);
    await settle();
    const [message] = told.flatMap((each) => (each.type === "message" ? [each] : []));
    expect(message).toMatchObject({ kind: "changed", data: '{"runs":["r1","r2"]}' });
  });
});
