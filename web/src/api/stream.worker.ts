import { type Ask, Hub, type Tell } from "./hub";

const ports = new Set<MessagePort>();
const hub = new Hub((message: Tell) => {
  for (const port of ports) port.postMessage(message);
});

const scope = self as unknown as { onconnect: (event: MessageEvent) => void };
scope.onconnect = (event) => {
  const port = event.ports[0];
  if (!port) return;
  ports.add(port);
  port.onmessage = ({ data }: MessageEvent<Ask>) => {
    hub.ask(data);
    if (data.type === "bye") ports.delete(port);
  };
  port.postMessage({ type: "leader", tab: "" } satisfies Tell);
};
