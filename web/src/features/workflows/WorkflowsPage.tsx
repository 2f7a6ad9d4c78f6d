import { PageHeading } from "@/ui/PageHeading";

export default function WorkflowsPage() {
  return <PageHeading title="Workflows" />;
}
