import { useMemo } from "react";
import type { Interval } from "@/model/events";
import { type Graph, type GraphPart, sizeOf } from "@/model/graph";
import type { Row } from "@/model/rows";
import type { PartProps } from "./PartNode";

/** A part as it is drawn. */
export type Drawn =
  | { is: "part"; id: string; props: PartProps }
  | { is: "branch"; id: string; text: string; note: string; press: () => void }
  | { is: "next"; id: string };

export interface Line {
  from: string;
  to: string;
  is: "plain" | "live" | "branch";
}

interface Given {
  graph: Graph;
  intervals: readonly Interval[];
  now: number;
  selected: string | null;
  progress: (node: string) => PartProps["progress"];
  toggle: (row: Row) => void;
  select: (row: Row) => void;
  isWorking: (row: Row) => boolean;
}

/** All parts and lines of a graph in one list, groups before what is in them. */
export function useDrawn({ graph, intervals, now, selected, progress, toggle, select, isWorking }: Given): {
  drawn: Drawn[];
  lines: Line[];
  count: number;
} {
  return useMemo(() => {
    const drawn: Drawn[] = [];
    const lines: Line[] = [];
    const working = new Set<string>();
    const walk = (parts: readonly GraphPart[], edges: Graph["edges"]) => {
      for (const part of parts) {
        const { row } = part;
        const isAtWork = isWorking(row);
        if (isAtWork) working.add(row.id);
        const props = {
          row,
          intervals,
          now: isAtWork ? now : 0,
          isOpen: part.isOpen,
          isSelected: row.id === selected,
          progress: isAtWork ? progress(row.id) : null,
          toggle,
          select,
        };
        drawn.push({ is: "part", id: part.id, props });
        if (part.isOpen) walk(part.parts, part.edges);
      }
      for (const edge of edges) lines.push({ ...edge, is: working.has(edge.to) ? "live" : "plain" });
    };
    walk(graph.parts, graph.edges);
    return { drawn, lines, count: sizeOf(graph) };
  }, [graph, intervals, now, selected, progress, toggle, select, isWorking]);
}
