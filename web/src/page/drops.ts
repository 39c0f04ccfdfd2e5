// Files and folders dropped anywhere on the page: pictures and sounds for the next message, a model, or conversations.
import { SluiceError } from '../index.ts';
import { isAdapterFolder } from './adapters/files.ts';
import { isMedia } from './attachments.ts';
import { kExtension } from './conversations/archive.ts';

interface Events {
  media: (files: File[]) => void;
  model: (files: File[]) => void;
  adapter: (files: File[]) => void; // a folder of PEFT or MLX
  conversations: (file: File) => void;
  failed: (error: unknown) => void;
}

const kModelFile = /\.(gguf|safetensors)$/i,
  kBesideModel = /\.(gguf|safetensors|json|jinja|txt|model)$/i;

function filesOf(transfer: DataTransfer): Promise<File[]> {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.() ?? null);
  if (!entries.some((entry) => entry?.isDirectory)) return Promise.resolve([...transfer.files]);
  return Promise.all(entries.filter((entry) => entry !== null).map(filesIn)).then((files) => files.flat());
}
// A file, or the files of a folder; folders in it are left out.
async function filesIn(entry: FileSystemEntry): Promise<File[]> {
  const fileOf = (one: FileSystemEntry): Promise<File> =>
    new Promise((resolve, reject) => (one as FileSystemFileEntry).file(resolve, reject));
  if (entry.isFile) return [await fileOf(entry)];
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  const files: File[] = [];
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return files;
    files.push(...(await Promise.all(some.filter(({ isFile }) => isFile).map(fileOf))));
  }
}

function sort(files: File[], { media, model, adapter, conversations, failed }: Events): void {
  const [first] = files;
  if (first === undefined) return;
  if (isAdapterFolder(files)) return adapter(files);
  if (files.some(({ name }) => kModelFile.test(name))) return model(files.filter(({ name }) => kBesideModel.test(name)));
  if (files.length === 1 && first.name.endsWith(kExtension)) return conversations(first);
  const other = files.find((file) => !isMedia(file));
  if (other) failed(new SluiceError('model', `${other.name}: is neither a model, a picture nor a sound: want one`));
  media(files.filter(isMedia));
}

export function listenToDrops(events: Events): void {
  const hasFiles = ({ dataTransfer }: DragEvent): boolean => dataTransfer?.types.includes('Files') ?? false;
  const mark = (on: boolean): void => void document.body.classList.toggle('dropping', on);
  document.addEventListener('dragover', (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    mark(true);
  });
  document.addEventListener('dragleave', (event) => event.relatedTarget === null && mark(false));
  document.addEventListener('drop', (event) => {
    mark(false);
    if (!hasFiles(event)) return;
    event.preventDefault();
    filesOf(event.dataTransfer!).then((files) => sort(files, events), events.failed);
  });
}
