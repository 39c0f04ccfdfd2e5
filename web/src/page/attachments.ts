// The pictures and sounds that go with the next message: dropped, pasted, picked, taken with the camera or recorded. Each is
// prepared at once, so that what the model does not take is said before it is sent.
import type { MediaFacts, MediaPart } from '../index.ts';
import { SluiceError } from '../index.ts';
import { Camera } from './camera.ts';
import { byId, h } from './dom.ts';
import { mediaView, nameOf, noteLength, release } from './media.ts';
import { Recorder } from './recorder.ts';

interface Events {
  prepare: (part: MediaPart) => Promise<Pick<MediaFacts, 'seconds'>>;
  changed: () => void;
  failed: (error: unknown) => void;
  announce: (text: string) => void;
}

const kPictures = /\.(png|jpe?g|webp|gif|bmp|avif|heic)$/i,
  kSounds = /\.(wav|mp3|ogg|oga|opus|flac|m4a|aac|aiff?)$/i;

// Null: neither a picture nor a sound.
function partOf(file: File): MediaPart | null {
  const alt = file.name;
  if (file.type.startsWith('image/') || (file.type === '' && kPictures.test(alt))) return { type: 'image', image: file, alt };
  if (file.type.startsWith('audio/') || (file.type === '' && kSounds.test(alt))) return { type: 'audio', audio: file, alt };
  return null;
}

export const isMedia = (file: File): boolean => partOf(file) !== null;

export class Attachments {
  private readonly list = byId<HTMLUListElement>('attached');
  private readonly items = new Map<MediaPart, HTMLElement>();
  private readonly recorder: Recorder;

  constructor(private readonly events: Events) {
    const camera = new Camera({ taken: (file) => this.add([file]), failed: events.failed });
    this.recorder = new Recorder({ recorded: (file) => this.add([file]), failed: events.failed, announce: events.announce });
    this.listenToPickers(camera);
    this.listenToPaste();
  }

  get parts(): MediaPart[] {
    return [...this.items.keys()];
  }
  // The parts, which are the caller's from now on.
  take(): MediaPart[] {
    const parts = this.parts;
    for (const item of this.items.values()) item.remove();
    this.items.clear();
    this.show();
    return parts;
  }

  // What the model takes has a button.
  offer(pictures: boolean, sounds: boolean): void {
    if (!sounds) this.recorder.cancel();
    byId('attach').hidden = !pictures && !sounds;
    byId('camera').hidden = !pictures;
    byId('microphone').hidden = !sounds;
    byId('composer').classList.toggle('with-media', pictures || sounds);
    byId<HTMLInputElement>('attach-file').accept = [pictures ? 'image/*' : '', sounds ? 'audio/*' : ''].filter(Boolean).join();
  }

  add(files: Iterable<File>): void {
    for (const file of files) {
      const part = partOf(file);
      if (part === null)
        this.events.failed(new SluiceError('model', `${file.name}: is neither a picture nor a sound: want one`));
      else void this.addPart(part);
    }
  }

  private async addPart(part: MediaPart): Promise<void> {
    const item = this.itemOf(part);
    this.items.set(part, item);
    this.list.append(item);
    this.show();
    try {
      const { seconds } = await this.events.prepare(part);
      if (seconds > 0) noteLength(part, seconds);
      item.removeAttribute('aria-busy');
      item.firstElementChild?.replaceWith(mediaView(part));
      if (this.items.has(part)) this.events.announce(`${nameOf(part)} is attached`);
    } catch (error) {
      if (this.items.has(part)) this.remove(part);
      this.events.failed(error);
    }
  }
  private itemOf(part: MediaPart): HTMLElement {
    const label = `Remove ${nameOf(part)}`;
    const button = h('button', { type: 'button', className: 'remove', ariaLabel: label, title: label, onclick: () => this.remove(part) }, '×');
    return h('li', { ariaBusy: 'true' }, mediaView(part), button);
  }
  private remove(part: MediaPart): void {
    this.items.get(part)?.remove();
    this.items.delete(part);
    release([part]);
    this.show();
    byId('prompt').focus();
  }
  private show(): void {
    this.list.hidden = this.items.size === 0;
    this.events.changed();
  }

  private listenToPickers(camera: Camera): void {
    for (const input of ['attach-file', 'camera-file']) {
      const picker = byId<HTMLInputElement>(input);
      picker.onchange = () => {
        this.add([...(picker.files ?? [])]);
        picker.value = '';
      };
    }
    byId('attach').onclick = () => byId('attach-file').click();
    byId('camera').onclick = () => void camera.open();
    byId('microphone').onclick = () => void this.recorder.start();
  }

  private listenToPaste(): void {
    // Text that is copied with a picture is pasted as well.
    document.addEventListener('paste', ({ clipboardData }) => {
      const files = [...(clipboardData?.files ?? [])];
      this.add(files.filter(isMedia));
    });
  }
}
