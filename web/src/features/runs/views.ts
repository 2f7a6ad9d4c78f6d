import { create } from "zustand";
import { persist } from "zustand/middleware";
import { useIsWide } from "@/ui/media";
import { NOTHING, queryOf } from "./filter";

/** A view: a name, and the filter as it is in the address. */
export interface SavedView {
  name: string;
  query: string;
}

/** The views that everybody has. */
export const VIEWS: SavedView[] = [
  { name: "All", query: "" },
  { name: "Needs a person", query: queryOf({ ...NOTHING, asks: true }).toString() },
  { name: "Failed", query: queryOf({ ...NOTHING, status: ["failed", "held"] }).toString() },
  { name: "At work", query: queryOf({ ...NOTHING, status: ["running", "compensating"] }).toString() },
  { name: "Not started", query: queryOf({ ...NOTHING, status: ["created"] }).toString() },
];

export const COLUMNS = [
  "status",
  "run",
  "workflow",
  "why",
  "since",
  "created",
  "took",
  "tags",
  "worker",
  "version",
] as const;
export type ColumnKey = (typeof COLUMNS)[number];

const USUAL: ColumnKey[] = ["status", "run", "workflow", "why", "since", "created", "took", "tags"];
const FEWER: ColumnKey[] = ["status", "run", "workflow", "why", "since"];

/** The columns that this person chose, else as many as there is space for. */
export function useColumns(): ColumnKey[] {
  const chosen = useViews((kept) => kept.columns);
  const usual = useIsWide(1000) ? USUAL : FEWER;
  return chosen ?? usual;
}

interface Kept {
  views: SavedView[];
  /** Null: nobody has chosen. */
  columns: ColumnKey[] | null;
  /** The search attributes that are shown as columns. */
  attributes: string[];
  save: (view: SavedView) => void;
  remove: (name: string) => void;
  setColumns: (columns: ColumnKey[]) => void;
  setAttributes: (attributes: string[]) => void;
}

/** The views and columns of this person, in this browser. */
export const useViews = create<Kept>()(
  persist(
    (set) => ({
      views: [],
      columns: null,
      attributes: [],
      save: (view) => set(({ views }) => ({ views: [...views.filter((each) => each.name !== view.name), view] })),
      remove: (name) => set(({ views }) => ({ views: views.filter((each) => each.name !== name) })),
      setColumns: (columns) => set({ columns: COLUMNS.filter((each) => columns.includes(each)) }),
      setAttributes: (attributes) => set({ attributes: [...new Set(attributes)] }),
    }),
    { name: "outlast.runs", partialize: ({ views, columns, attributes }) => ({ views, columns, attributes }) },
  ),
);
