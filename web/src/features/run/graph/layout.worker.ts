import { type Box, type Edge, layout, type Placed } from "@/model/layout";

export interface LayoutAsk {
  key: string;
  boxes: Box[];
  edges: Edge[];
}

export interface LayoutTell {
  key: string;
  places: Map<string, Placed>;
}

self.onmessage = ({ data }: MessageEvent<LayoutAsk>) => {
  const told: LayoutTell = { key: data.key, places: layout(data.boxes, data.edges) };
  self.postMessage(told);
};
