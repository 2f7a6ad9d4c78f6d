import { QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { RouterProvider } from "react-router/dom";
import "./ui/theme.css";
import { keepFresh } from "./api/fresh";
import { queries } from "./api/queries";
import { connect } from "./api/stream";
import { reloadIf } from "./api/version";
import { router } from "./app";
import { useDirty } from "./ui/drafts";
import { applySettings } from "./ui/settings";

const root = document.getElementById("root");
if (root) {
  applySettings();
  reloadIf(() => useDirty.getState().forms === 0);
  connect();
  keepFresh();
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </StrictMode>,
  );
}
