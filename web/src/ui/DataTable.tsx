import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { ListChecks } from "lucide-react";
import {
  type CSSProperties,
  type MouseEvent,
  memo,
  type ReactNode,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
} from "react";
import { TickBox } from "./Field";
import { useKeys } from "./keys";
import { useIsWide } from "./media";
import { useSettings } from "./settings";

/** Pixels of the box for ticks and the padding of a row. */
const PADDING = 44 + 16;

export interface Column<Row> {
  key: string;
  name: ReactNode;
  /** A track of a CSS grid: `112px`, `minmax(180px, 1.2fr)`. */
  width: string;
  right?: boolean;
  sorted?: "ascending" | "descending" | undefined;
  cell: (row: Row) => ReactNode;
}

interface Selection {
  selected: ReadonlySet<string>;
  onChange: (selected: ReadonlySet<string>) => void;
}

interface Props<Row> {
  label: string;
  columns: Column<Row>[];
  rows: Row[];
  rowKey: (row: Row) => string;
  /** The row on narrow screens: two or three lines. */
  narrow: (row: Row) => ReactNode;
  onOpen?: (row: Row) => void;
  selection?: Selection;
  /** Above the heading: what is new. */
  banner?: ReactNode;
  foot?: ReactNode;
  /** What is no longer so is grey. */
  isStale?: (row: Row) => boolean;
}

/**
 * A table of rows with an address each. Only what can be seen is in the document: the rows are chosen once a frame. Keys: `j`
 * and `k` or arrows move, `x` selects, `Shift+j` and `Shift+k` extend, `Enter` opens.
 */
export function DataTable<Row>(props: Props<Row>) {
  const { label, columns, rows, rowKey, narrow, onOpen, selection, banner, foot, isStale } = props;
  const list = useRef<HTMLDivElement>(null);
  const isNarrow = useIsNarrow();
  const [cursor, setCursor] = useState<string | null>(null);
  const [isSelecting, setSelecting] = useState(false);
  const [offset, setOffset] = useState(0);
  useLayoutEffect(() => {
    // What stands above the rows comes and goes.
    setOffset(Math.round((list.current?.getBoundingClientRect().top ?? 0) + window.scrollY));
  });
  const height = useRowHeight();
  const virtual = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => (isNarrow ? 86 : height),
    overscan: 12,
    scrollMargin: offset,
    getItemKey: (index) => {
      const row = rows[index];
      return row === undefined ? index : rowKey(row);
    },
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: another layout has other heights
  useEffect(() => virtual.measure(), [isNarrow, height]);

  const at = cursor === null ? -1 : rows.findIndex((row) => rowKey(row) === cursor);
  const moveTo = (index: number) => {
    const row = rows[Math.max(0, Math.min(rows.length - 1, index))];
    if (row === undefined) return;
    setCursor(rowKey(row));
    virtual.scrollToIndex(rows.indexOf(row), { align: "auto" });
    requestAnimationFrame(() => document.getElementById(idOf(label, rowKey(row)))?.focus());
  };
  const toggle = (key: string, isOn = !selection?.selected.has(key)) => {
    const next = new Set(selection?.selected);
    if (isOn) next.add(key);
    else next.delete(key);
    selection?.onChange(next);
  };
  const extend = (step: number) => {
    const row = rows[at];
    const other = rows[at + step];
    if (!selection || row === undefined || other === undefined) return;
    selection.onChange(new Set([...selection.selected, rowKey(row), rowKey(other)]));
    moveTo(at + step);
  };
  const open = (event: KeyboardEvent) => {
    const row = rows[at];
    if (row !== undefined && !(event.target as HTMLElement).closest("a, button, input")) onOpen?.(row);
    else (event.target as HTMLElement).click();
  };
  useKeys({
    j: () => moveTo(at + 1),
    k: () => moveTo(at < 0 ? 0 : at - 1),
    ArrowDown: () => moveTo(at + 1),
    ArrowUp: () => moveTo(at < 0 ? 0 : at - 1),
    Home: () => moveTo(0),
    End: () => moveTo(rows.length - 1),
    "Shift+j": () => extend(1),
    "Shift+k": () => extend(-1),
    x: () => cursor !== null && selection && toggle(cursor),
    Enter: open,
    Escape: () => selection?.onChange(new Set()),
  });

  const click = (event: MouseEvent, row: Row) => {
    if ((event.target as HTMLElement).closest("a, button, input, label")) return;
    setCursor(rowKey(row));
    if (!getSelection()?.toString()) onOpen?.(row);
  };
  const template = [...(selection ? ["44px"] : []), ...columns.map((column) => column.width)].join(" ");
  const minimum =
    PADDING + columns.reduce((sum, { width }) => sum + Number.parseInt(width.replace("minmax(", ""), 10), 0);
  const scrolls = !useIsWide(minimum + 48) && !isNarrow; // sideways, inside its panel
  const chosen = rows.filter((row) => selection?.selected.has(rowKey(row))).length;

  return (
    <div className="rounded-panel border border-line bg-surface">
      <div className="relative">
        {banner}
        {isNarrow && selection && rows.length ? (
          <button
            type="button"
            aria-label="Select rows"
            aria-pressed={isSelecting}
            onClick={() => {
              setSelecting(!isSelecting);
              selection.onChange(new Set());
            }}
            className="absolute inset-y-0 right-0 grid w-11 place-items-center rounded-control text-text-2 aria-pressed:bg-selected aria-pressed:text-text"
          >
            <ListChecks size={16} aria-hidden />
          </button>
        ) : null}
      </div>
      <div
        role="table"
        aria-label={label}
        aria-rowcount={rows.length + 1}
        className={scrolls ? "overflow-x-auto *:min-w-(--minimum)" : ""}
        style={{ "--minimum": `${minimum}px` } as CSSProperties}
      >
        <div
          role="row"
          aria-rowindex={1}
          className={
            isNarrow
              ? "sr-only"
              : `${scrolls ? "" : "sticky top-12"} z-10 grid items-center border-b border-line bg-surface px-2 text-meta font-medium text-text-2 ${banner ? "" : "rounded-t-panel"}`
          }
          style={isNarrow ? undefined : { gridTemplateColumns: template }}
        >
          {selection && !isNarrow ? (
            <span role="columnheader" className="flex px-2 py-2">
              <TickBox
                label={`Select all ${rows.length} shown`}
                checked={rows.length > 0 && chosen === rows.length}
                mixed={chosen > 0 && chosen < rows.length}
                onChange={(isOn) => selection.onChange(new Set(isOn ? rows.map(rowKey) : []))}
              />
            </span>
          ) : null}
          {columns.map((column) => (
            <span
              key={column.key}
              role="columnheader"
              aria-sort={column.sorted}
              className={`truncate px-2 py-2 ${column.right ? "text-right" : ""}`}
            >
              {column.name}
            </span>
          ))}
        </div>
        <div ref={list} role="rowgroup" className="relative" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map((item) => {
            const row = rows[item.index];
            if (row === undefined) return null;
            const key = rowKey(row);
            const isSelected = selection?.selected.has(key) ?? false;
            const hasTick = selection && (!isNarrow || isSelecting || selection.selected.size > 0);
            return (
              // biome-ignore lint/a11y/useKeyWithClickEvents: Enter opens the row, see above
              <div
                key={key}
                id={idOf(label, key)}
                role="row"
                aria-rowindex={item.index + 2}
                tabIndex={(at < 0 ? item.index === 0 : key === cursor) ? 0 : -1}
                data-index={item.index}
                ref={isNarrow ? virtual.measureElement : undefined}
                onFocus={(event) => event.target === event.currentTarget && setCursor(key)}
                onClick={(event) => click(event, row)}
                className={`absolute inset-x-0 top-0 border-b border-line -outline-offset-2 ${isNarrow ? "flex gap-3 px-3.5 py-2.5" : "grid items-center px-2"} ${item.index === rows.length - 1 && !foot ? "rounded-b-panel border-b-0" : ""} ${isSelected ? "bg-selected" : "hover:bg-hover"} ${onOpen ? "cursor-pointer" : ""} ${isStale?.(row) ? "opacity-55" : ""}`}
                style={{
                  transform: `translateY(${item.start - offset}px)`,
                  ...(isNarrow ? {} : { height, gridTemplateColumns: template }),
                }}
              >
                {hasTick ? (
                  <span role="cell" className={isNarrow ? "" : "flex px-2"}>
                    <TickBox label={`Select ${key}`} checked={isSelected} onChange={(isOn) => toggle(key, isOn)} />
                  </span>
                ) : null}
                {isNarrow ? (
                  <div role="cell" className="min-w-0 flex-1">
                    {narrow(row)}
                  </div>
                ) : (
                  <Cells row={row} columns={columns} />
                )}
              </div>
            );
          })}
        </div>
      </div>
      {foot ? (
        <div className="flex flex-wrap items-center gap-x-4 gap-y-2 px-4 py-2 text-meta text-text-2">{foot}</div>
      ) : null}
    </div>
  );
}

/** The cells of a row; while the table is scrolled, those that stay are left alone. */
const Cells = memo(function Cells<Row>({ row, columns }: { row: Row; columns: Column<Row>[] }) {
  return columns.map((column) => (
    <span
      key={column.key}
      role="cell"
      className={`min-w-0 overflow-hidden px-2 text-ellipsis whitespace-nowrap ${column.right ? "text-right" : ""}`}
    >
      {column.cell(row)}
    </span>
  ));
}) as <Row>(props: { row: Row; columns: Column<Row>[] }) => ReactNode;

const idOf = (label: string, key: string) => `${label} ${key}`.replaceAll(" ", "-");

function useIsNarrow(): boolean {
  const [isNarrow, setNarrow] = useState(() => matchMedia("(width < 700px)").matches);
  useEffect(() => {
    const media = matchMedia("(width < 700px)");
    const look = () => setNarrow(media.matches);
    media.addEventListener("change", look);
    return () => media.removeEventListener("change", look);
  }, []);
  return isNarrow;
}

/** The height of a row in this density. */
function useRowHeight(): number {
  const isDense = useSettings((settings) => settings.density === "dense");
  return isDense ? 28 : 36;
}
