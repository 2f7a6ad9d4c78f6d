import {
  Background,
  BaseEdge,
  type Edge,
  getBezierPath,
  getSmoothStepPath,
  Handle,
  type Node,
  type NodeProps,
  Position,
  ReactFlow,
  ReactFlowProvider,
  useReactFlow,
} from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import "./flow.css";
import { Maximize2, Minus, Plus } from "lucide-react";
import { useEffect, useMemo, useRef } from "react";
import type { Placed } from "@/model/layout";
import { Button } from "@/ui/Button";
import { BranchNode, GroupNode, MapNode, NextNode, PartNode, type PartProps } from "./PartNode";
import type { Drawn, Line } from "./use-drawn";

type PartData = { drawn: Drawn } & Record<string, unknown>;

function Frame({ data }: NodeProps<Node<PartData>>) {
  const { drawn } = data;
  return (
    <>
      <Handle type="target" position={Position.Left} isConnectable={false} className="invisible" />
      <Inside drawn={drawn} />
      <Handle type="source" position={Position.Right} isConnectable={false} className="invisible" />
    </>
  );
}

function Inside({ drawn }: { drawn: Drawn }) {
  switch (drawn.is) {
    case "branch":
      return <BranchNode text={drawn.text} note={drawn.note} press={drawn.press} />;
    case "next":
      return <NextNode />;
    default:
      return <Part {...drawn.props} />;
  }
}

function Part(props: PartProps) {
  if (props.row.kind === "map" && !props.isOpen) return <MapNode {...props} />;
  return props.row.rows.length ? <GroupNode {...props} /> : <PartNode {...props} />;
}

function LineEdge({
  sourceX,
  sourceY,
  targetX,
  targetY,
  sourcePosition,
  targetPosition,
  data,
  markerEnd,
}: import("@xyflow/react").EdgeProps<Edge<{ line: Line }>>) {
  const ends = { sourceX, sourceY, targetX, targetY, sourcePosition, targetPosition };
  const isDashed = data?.line.is === "branch";
  const [path] = isDashed ? getSmoothStepPath({ ...ends, borderRadius: 8 }) : getBezierPath(ends);
  const colour = data?.line.is === "live" ? "var(--run-bar)" : "var(--line-strong)";
  return (
    <BaseEdge
      path={path}
      markerEnd={markerEnd ?? ""}
      style={{
        stroke: colour,
        strokeWidth: data?.line.is === "live" ? 2 : 1.25,
        strokeDasharray: isDashed ? "4 4" : undefined,
      }}
    />
  );
}

const nodeTypes = { part: Frame };
const edgeTypes = { line: LineEdge };

interface Props {
  drawn: Drawn[];
  lines: Line[];
  places: Map<string, Placed>;
  focus: string | null;
  /** Where it begins if it is too wide: at the end if the run is at work. */
  isAtEnd: boolean;
}

const EDGE = 24;
/** Below this size the text is too small to be read: then only a part is shown at first. */
const READABLE = 0.86;

/** The graph as elements of the page: for up to about a thousand parts. */
export default function FlowView(props: Props) {
  return (
    <ReactFlowProvider>
      <Flow {...props} />
    </ReactFlowProvider>
  );
}

function Flow({ drawn, lines, places, focus, isAtEnd }: Props) {
  const flow = useReactFlow();
  const nodes = useMemo(
    () =>
      drawn.flatMap((each): Node<PartData>[] => {
        const place = places.get(each.id);
        if (!place) return [];
        const { x, y, width, height } = place;
        const zIndex = each.is === "part" && each.props.isOpen ? 0 : 1;
        return [
          {
            id: each.id,
            type: "part",
            position: { x, y },
            width,
            height,
            measured: { width, height },
            handles: [
              { type: "target", position: Position.Left, x: 0, y: height / 2, width: 1, height: 1 },
              { type: "source", position: Position.Right, x: width, y: height / 2, width: 1, height: 1 },
            ],
            data: { drawn: each },
            zIndex,
            draggable: false,
            selectable: false,
            focusable: false,
          },
        ];
      }),
    [drawn, places],
  );
  const edges = useMemo(
    () =>
      lines.map(
        (line): Edge => ({
          id: `${line.from} > ${line.to}`,
          source: line.from,
          target: line.to,
          type: "line",
          zIndex: 1,
          data: { line },
          markerEnd: {
            type: "arrow" as never,
            color: line.is === "live" ? "var(--run-bar)" : "var(--line-strong)",
            width: 16,
            height: 16,
          },
          focusable: false,
          selectable: false,
        }),
      ),
    [lines],
  );
  const count = nodes.length;
  const box = useRef<HTMLDivElement>(null);
  const isMoved = useRef(false);
  const begin = () => {
    let [width, height] = [1, 1];
    for (const place of places.values()) {
      width = Math.max(width, place.x + place.width);
      height = Math.max(height, place.y + place.height);
    }
    const [w, h] = [box.current?.clientWidth ?? 0, box.current?.clientHeight ?? 0];
    const fitting = Math.min(1, (w - 2 * EDGE) / width);
    const zoom = fitting >= READABLE ? fitting : 1;
    const left = fitting >= READABLE ? (w - width * zoom) / 2 : isAtEnd ? w - EDGE - width : EDGE;
    void flow.setViewport({ zoom, x: left, y: Math.max(EDGE, Math.min(60, (h - height * zoom) / 2)) });
  };
  const latest = useRef(begin);
  latest.current = begin;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a graph that grows is shown from its end on
  useEffect(() => {
    if (!isMoved.current && !box.current?.matches(":hover")) latest.current();
  }, [nodes.length]);
  useEffect(() => {
    const place = focus ? places.get(focus) : undefined;
    if (place)
      void flow.setCenter(place.x + place.width / 2, place.y + place.height / 2, {
        zoom: Math.max(0.8, flow.getZoom()),
        duration: 0,
      });
  }, [flow, focus, places]);
  return (
    <div ref={box} className="size-full">
      <ReactFlow
        nodes={nodes}
        edges={edges}
        nodeTypes={nodeTypes}
        edgeTypes={edgeTypes}
        nodesConnectable={false}
        nodesDraggable={false}
        elementsSelectable={false}
        zoomOnDoubleClick={false}
        preventScrolling={false}
        zoomOnScroll={false}
        panOnScroll={false}
        onInit={begin}
        onMoveStart={(event) => {
          if (event) isMoved.current = true;
        }}
        minZoom={0.05}
        maxZoom={2}
        onlyRenderVisibleElements={count > 150}
        aria-label="Graph of the run"
      >
        <Background gap={24} size={1} color="var(--line)" />
      </ReactFlow>
      <div className="absolute right-3 bottom-8 z-10 flex gap-1">
        <Button small square look="soft" aria-label="Zoom out" onClick={() => void flow.zoomOut()}>
          <Minus size={14} aria-hidden />
        </Button>
        <Button small square look="soft" aria-label="Zoom in" onClick={() => void flow.zoomIn()}>
          <Plus size={14} aria-hidden />
        </Button>
        <Button small look="soft" onClick={() => void flow.fitView({ padding: 0.08, maxZoom: 1 })}>
          <Maximize2 size={14} aria-hidden /> Fit
        </Button>
      </div>
    </div>
  );
}
