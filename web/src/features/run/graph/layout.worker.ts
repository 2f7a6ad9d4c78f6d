import { type Box, type Edge, layout, type Placed } from "@/model/layout";

export interface LayoutAsk {
  key: string;
  boxes: Box[];
  edges: Edge[];
}

/** `ready`: the script is there. */
export type LayoutTell = "ready" | { key: string; places: Map<string, Placed> };

self.onmessage = ({ data }: MessageEvent<LayoutAsk>) => {
  const told: LayoutTell = { key: data.key, places: layout(data.boxes, data.edges) };
  self.postMessage(told);
};
self.postMessage("ready" satisfies LayoutTell);
