// Pictures as the engine takes them, decoded by the browser: RGBA, turned upright as their EXIF says, without a conversion of
// colours. What transparent pixels hide is kept where WebGL can read it, as decoders of files keep it. Worker or page.
import type { Pixels } from './engine/module.ts';
import { SluiceError } from './errors.ts';

const kOpaque = 255;

export async function decodePicture(blob: Blob): Promise<Pixels> {
  const bitmap = await bitmapOf(blob);
  try {
    const { width, height } = bitmap;
    const data = drawn(bitmap);
    return { width, height, data: (isOpaque(data) ? null : textured(bitmap)) ?? data };
  } finally {
    bitmap.close();
  }
}

export async function bitmapOf(blob: Blob): Promise<ImageBitmap> {
  try {
    return await createImageBitmap(blob, {
      imageOrientation: 'from-image',
      premultiplyAlpha: 'none',
      colorSpaceConversion: 'none',
    });
  } catch {
    const name = blob instanceof File ? blob.name : 'picture';
    throw new SluiceError('model', `${name}: this browser does not decode it: want a PNG, JPEG, WebP, GIF or BMP picture`);
  }
}

// A canvas multiplies colours by their alpha, so only opaque pixels are exact.
function drawn(bitmap: ImageBitmap): Uint8ClampedArray {
  const { width, height } = bitmap;
  try {
    const context = new OffscreenCanvas(width, height).getContext('2d', { willReadFrequently: true })!;
    context.drawImage(bitmap, 0, 0);
    return context.getImageData(0, 0, width, height).data;
  } catch {
    throw new SluiceError('model', `picture of ${width} x ${height} pixels: is too large for this browser: want a smaller one`);
  }
}

function isOpaque(data: Uint8ClampedArray): boolean {
  for (let at = 3; at < data.length; at += 4) if (data[at] !== kOpaque) return false;
  return true;
}

// Null: the browser has no WebGL, or none for a picture of that size.
function textured(bitmap: ImageBitmap): Uint8Array | null {
  const { width, height } = bitmap;
  const gl = new OffscreenCanvas(1, 1).getContext('webgl');
  if (gl === null || Math.max(width, height) > gl.getParameter(gl.MAX_TEXTURE_SIZE)) return null;
  const texture = gl.createTexture();
  gl.bindTexture(gl.TEXTURE_2D, texture);
  gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, bitmap);
  gl.bindFramebuffer(gl.FRAMEBUFFER, gl.createFramebuffer());
  gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, texture, 0);
  const whole = gl.checkFramebufferStatus(gl.FRAMEBUFFER) === gl.FRAMEBUFFER_COMPLETE;
  const data = new Uint8Array(width * height * 4);
  if (whole) gl.readPixels(0, 0, width, height, gl.RGBA, gl.UNSIGNED_BYTE, data);
  const failed = !whole || gl.getError() !== gl.NO_ERROR;
  gl.getExtension('WEBGL_lose_context')?.loseContext();
  return failed ? null : data;
}
