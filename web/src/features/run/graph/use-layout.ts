import { useEffect, useMemo, useState } from "react";
import { loadPart } from "@/api/parts";
import type { Graph, GraphPart } from "@/model/graph";
import type { Box, Placed } from "@/model/layout";
import type { Row } from "@/model/rows";
import type { LayoutAsk, LayoutTell } from "./layout.worker";

const KEPT = 30;
const cache = new Map<string, Map<string, Placed>>();
const waiting = new Map<string, (places: Map<string, Placed>) => void>();
let opened: Promise<Worker> | undefined;

/** The worker, once its script is there. */
function open(): Promise<Worker> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module", name: "layout" });
    worker.onerror = () => reject(new Error("the worker for layouts could not be loaded"));
    worker.onmessage = ({ data }: MessageEvent<LayoutTell>) => {
      if (data === "ready") return resolve(worker);
      if (cache.size >= KEPT) cache.clear();
      cache.set(data.key, data.places);
      waiting.get(data.key)?.(data.places);
      waiting.delete(data.key);
    };
  });
}

async function ask(message: LayoutAsk, take: (places: Map<string, Placed>) => void): Promise<void> {
  waiting.set(message.key, take);
  opened ??= loadPart(open);
  (await opened).postMessage(message);
}

export const NODE_HEIGHT = 52;

/** Beside the name: icons, and the duration of a group. */
const EXTRA: Record<Row["kind"], number> = { node: 56, wait: 56, map: 56, child: 76, group: 120 };

const CELLS = 20;
const MOST_LINES = 12;

/** How a map shows its items: as lines of cells. Of many items, several share a cell. */
export function cellsOf(items: number): { size: number; columns: number; lines: number } {
  const size = Math.max(1, Math.ceil(items / (CELLS * MOST_LINES)));
  return { size, columns: CELLS, lines: Math.ceil(Math.ceil(items / size) / CELLS) };
}

/** The width of a part follows from its name, so that it does not change while the part is at work. */
export function widthOf({ row }: GraphPart): number {
  if (row.kind === "map") return 196;
  return Math.round(
    Math.max(156, Math.min(236, EXTRA[row.kind] + (row.label.length + (row.detail ? row.detail.length + 1 : 0)) * 8)),
  );
}

export function heightOf({ row }: GraphPart): number {
  if (row.kind !== "map") return NODE_HEIGHT;
  return 60 + cellsOf(row.rows.length).lines * 8;
}

function boxOf(part: GraphPart): Box {
  const size = { id: part.id, width: widthOf(part), height: heightOf(part) };
  return part.isOpen ? { ...size, boxes: part.parts.map(boxOf), edges: part.edges } : size;
}

/** The places of a graph, made in a worker and kept: only another structure is laid out again. Null until the first is there. */
export function useLayout(graph: Graph): Map<string, Placed> | null {
  const { key, boxes } = useMemo(() => {
    const all = graph.parts.map(boxOf);
    return { boxes: all, key: JSON.stringify([all, graph.edges]) };
  }, [graph]);
  const [found, setFound] = useState<{ key: string; places: Map<string, Placed> } | null>(null);
  useEffect(() => {
    if (cache.has(key)) return;
    let isWanted = true;
    void ask({ key, boxes, edges: graph.edges }, (places) => isWanted && setFound({ key, places }));
    return () => {
      isWanted = false;
    };
  }, [key, boxes, graph.edges]);
  return cache.get(key) ?? found?.places ?? null;
}
