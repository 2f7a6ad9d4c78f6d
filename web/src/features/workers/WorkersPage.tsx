import { PageHeading } from "@/ui/PageHeading";

export default function WorkersPage() {
  return <PageHeading title="Workers" />;
}
