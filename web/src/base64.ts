// The bytes of a file as a data: URL, and as base64 alone. Page only: it uses FileReader.

export async function dataUrl(blob: Blob): Promise<string> {
  const reader = new FileReader();
  await new Promise((resolve, reject) => {
    [reader.onload, reader.onerror] = [resolve, () => reject(reader.error)];
    reader.readAsDataURL(blob);
  });
  return reader.result as string;
}

export const base64 = async (blob: Blob): Promise<string> => (await dataUrl(blob)).replace(/^[^,]*,/, '');
