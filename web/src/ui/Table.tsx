import type { ReactNode } from "react";

/** The class of a cell. On narrow screens a row is a block, and each cell says its `data-label`. */
export const CELL =
  "px-3 py-2 align-top break-words first:pl-4 last:pr-4 max-md:block max-md:px-4 max-md:py-0.5 max-md:data-label:before:mr-2 max-md:data-label:before:text-meta max-md:data-label:before:text-text-2 max-md:data-label:before:content-[attr(data-label)]";

/** A plain table: its rows are `tr` with cells of the class `CELL`. */
export function Table({ label, columns, children }: { label: string; columns: ReactNode[]; children: ReactNode }) {
  return (
    <table aria-label={label} className="w-full max-md:block">
      <thead className="max-md:hidden">
        <tr className="border-b border-line text-left text-meta text-text-2">
          {columns.map((column, place) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: columns have an order
            <th key={place} className="px-3 py-2 font-medium first:pl-4 last:pr-4">
              {column}
            </th>
          ))}
        </tr>
      </thead>
      <tbody className="max-md:block [&>tr]:border-b [&>tr]:border-line [&>tr]:last:border-0 max-md:[&>tr]:block max-md:[&>tr]:py-2.5">
        {children}
      </tbody>
    </table>
  );
}
