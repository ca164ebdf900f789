// Reads what packed_values.h writes.

/// The bytes of base64 of a zlib stream.
async function inflate(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function numberOfCode(code, digits) {
  if (code === 0xffffff) return NaN;
  if (code >= 0xfffffd) return code === 0xfffffe ? Infinity : -Infinity;
  const least = 10 ** (digits - 1), size = code >>> 1;
  let number = size / 1e7;
  if (size >= 10 * least) {
    const above = size - 10 * least, exponent = Math.floor(above / (9 * least)) - 6; // of the mantissa's last digit
    const mantissa = least + (above % (9 * least));
    number = exponent < 0 ? mantissa / 10 ** -exponent : mantissa * 10 ** exponent;
  }
  return code & 1 ? -number : number;
}

/// The numbers of pack_values().
async function unpackValues(text, digits) {
  const planes = await inflate(text), count = planes.length / 3;
  const values = new Float64Array(count);
  for (let i = 0; i < count; ++i)
    values[i] = numberOfCode(planes[i] | (planes[count + i] << 8) | (planes[2 * count + i] << 16), digits);
  return values;
}
