import { type Ask, Hub, type Tell } from "./hub";

const ports = new Set<MessagePort>();
const hub = new Hub((message: Tell) => {
  for (const port of ports) port.postMessage(message);
});

const scope = self as unknown as { onconnect: (event: MessageEvent) => void };
scope.onconnect = (event) => {
  const port = event.ports[0];
  if (!port) return;
  port.onmessage = ({ data }: MessageEvent<Ask>) => {
    if (data.type === "bye") ports.delete(port);
    else ports.add(port); // the browser may show a page again that said goodbye
    hub.ask(data);
  };
  port.postMessage({ type: "leader", tab: "" } satisfies Tell);
};
