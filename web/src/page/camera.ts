// A picture from the camera: a phone's own program for it, or a dialog that shows what the camera sees.
import { SluiceError } from '../index.ts';
import { byId, lightDismiss } from './dom.ts';

interface Events {
  taken: (file: File) => void;
  failed: (error: unknown) => void;
}

// What a browser says of a camera or microphone that it does not give.
export function notGiven(what: string, error: unknown): SluiceError {
  const refused = error instanceof DOMException && (error.name === 'NotAllowedError' || error.name === 'SecurityError');
  const why = refused ? 'this browser does not allow it: want it allowed for this page' : 'there is none that works: want one';
  return new SluiceError('model', `${what}: ${why}`);
}

export class Camera {
  private readonly dialog = byId<HTMLDialogElement>('camera-dialog');
  private readonly video = byId<HTMLVideoElement>('camera-view');
  private stream: MediaStream | null = null;

  constructor(private readonly events: Events) {
    lightDismiss(this.dialog);
    this.dialog.addEventListener('close', () => this.close());
    byId('camera-take').onclick = () => void this.take();
  }

  async open(): Promise<void> {
    const onPhone = matchMedia('(pointer: coarse)').matches;
    if (onPhone || !navigator.mediaDevices) return byId('camera-file').click();
    try {
      this.stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: 'environment' } });
    } catch (error) {
      return this.events.failed(notGiven('Camera', error));
    }
    this.video.srcObject = this.stream;
    this.dialog.showModal();
    await this.video.play().catch(() => {}); // closed meanwhile
  }

  private async take(): Promise<void> {
    const { videoWidth: width, videoHeight: height } = this.video;
    if (width === 0) return; // nothing seen yet
    const canvas = new OffscreenCanvas(width, height);
    canvas.getContext('2d')!.drawImage(this.video, 0, 0);
    const blob = await canvas.convertToBlob({ type: 'image/png' });
    this.dialog.close();
    this.events.taken(new File([blob], 'picture from the camera.png', { type: blob.type }));
  }

  private close(): void {
    for (const track of this.stream?.getTracks() ?? []) track.stop();
    this.stream = this.video.srcObject = null;
  }
}
