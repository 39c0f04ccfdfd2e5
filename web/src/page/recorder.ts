// A sound from the microphone, with a meter of its level.
import { notGiven } from './camera.ts';
import { byId } from './dom.ts';
import { formatLength } from './media.ts';

interface Events {
  recorded: (file: File) => void;
  failed: (error: unknown) => void;
  announce: (text: string) => void;
}

const kLongest = 29; // seconds: towers take 30, and a recorder ends a little late
const kLoudest = 60; // decibels that the meter shows

// A recording under way.
interface Recording {
  recorder: MediaRecorder;
  stream: MediaStream;
  context: AudioContext;
  began: number; // ms
  wanted: boolean;
}

export class Recorder {
  private recording: Recording | null = null;
  private asking = false;

  constructor(private readonly events: Events) {
    byId('recording-stop').onclick = () => this.end(true);
    byId('recording-cancel').onclick = () => this.cancel();
    document.addEventListener('keydown', ({ key }) => key === 'Escape' && this.cancel());
  }

  async start(): Promise<void> {
    if (this.recording !== null || this.asking) return;
    this.asking = true;
    try {
      const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
      this.begin(stream);
    } catch (error) {
      this.events.failed(notGiven('Microphone', error));
    } finally {
      this.asking = false;
    }
  }
  cancel(): void {
    this.end(false);
  }

  private begin(stream: MediaStream): void {
    const recorder = new MediaRecorder(stream);
    const context = new AudioContext();
    const recording = (this.recording = { recorder, stream, context, began: performance.now(), wanted: false });
    const pieces: Blob[] = [];
    recorder.ondataavailable = ({ data }) => pieces.push(data);
    recorder.onstop = () => {
      for (const track of stream.getTracks()) track.stop();
      void context.close();
      // Without the codec, which is no part of a file's type.
      const type = (recorder.mimeType || 'audio/webm').split(';')[0]!;
      if (recording.wanted) this.events.recorded(new File(pieces, 'recorded sound', { type }));
    };
    recorder.start();
    byId('recording').hidden = false;
    byId('microphone').hidden = true;
    byId('recording-stop').focus();
    this.events.announce('Recording');
    this.follow(recording);
  }

  // Shows time and level until the recording ends.
  private follow(recording: Recording): void {
    const analyser = recording.context.createAnalyser();
    recording.context.createMediaStreamSource(recording.stream).connect(analyser);
    const samples = new Float32Array(analyser.fftSize);
    const meter = byId<HTMLMeterElement>('recording-level');
    const show = (): void => {
      if (this.recording !== recording) return;
      analyser.getFloatTimeDomainData(samples);
      const power = samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length;
      meter.value = power === 0 ? 0 : Math.max(0, Math.min(1, 1 + (10 * Math.log10(power)) / kLoudest));
      const seconds = (performance.now() - recording.began) / 1000;
      byId('recording-time').textContent = `${formatLength(Math.min(seconds, kLongest))} of ${formatLength(kLongest)}`;
      if (seconds >= kLongest) this.end(true);
      else setTimeout(show, 50);
    };
    show();
  }

  private end(wanted: boolean): void {
    const recording = this.recording;
    if (recording === null) return;
    this.recording = null;
    recording.wanted = wanted;
    recording.recorder.stop();
    byId('recording').hidden = true;
    byId('microphone').hidden = false;
    byId('prompt').focus();
  }
}
