import { X } from "lucide-react";
import { Dialog as Radix } from "radix-ui";
import type { ReactNode } from "react";
import { Button } from "./Button";

/**
 * A dialog. `actions` are its buttons: the one that keeps all as it is first, the one that acts last. What begins the focus
 * has `autoFocus`.
 */
export function Dialog({
  open,
  onClose,
  title,
  children,
  actions,
  wide,
}: {
  open: boolean;
  onClose: () => void;
  title: ReactNode;
  children?: ReactNode;
  actions?: ReactNode;
  wide?: boolean;
}) {
  return (
    <Radix.Root open={open} onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Radix.Portal>
        {/* The library's own overlay would write a style element, which the content security policy refuses. */}
        <div className="fixed inset-0 z-40 bg-canvas/70" aria-hidden />
        <Radix.Content
          aria-describedby={undefined}
          className={`fixed top-1/2 left-1/2 z-50 flex max-h-[calc(100dvh-48px)] w-[calc(100vw-32px)] -translate-x-1/2 -translate-y-1/2 animate-appear flex-col rounded-panel border border-line-strong bg-surface shadow-float outline-none ${wide ? "max-w-190" : "max-w-105"}`}
        >
          <header className="flex items-start gap-2 px-4 pt-4">
            <Radix.Title className="min-w-0 flex-1 text-head font-semibold break-words">{title}</Radix.Title>
            <Radix.Close asChild>
              <Button look="flat" small square aria-label="Close" className="-mt-0.5 -mr-1.5">
                <X size={16} aria-hidden />
              </Button>
            </Radix.Close>
          </header>
          <div className="min-h-0 overflow-y-auto px-4 pt-2 pb-4">{children}</div>
          {actions ? (
            <footer className="flex flex-wrap justify-end gap-2 border-t border-line px-4 py-3">{actions}</footer>
          ) : null}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
