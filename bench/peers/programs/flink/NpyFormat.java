import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.file.src.reader.SimpleStreamFormat;
import org.apache.flink.connector.file.src.reader.StreamFormat;
import org.apache.flink.core.fs.FSDataInputStream;

/** Reads float64 matrices of .npy files (https://numpy.org/neps/nep-0001-npy-format.html) as records of so many rows. */
public class NpyFormat extends SimpleStreamFormat<double[]> {
    private final int columns;
    private final int rows;

    public NpyFormat(int columns, int rows) {
        this.columns = columns;
        this.rows = rows;
    }

    @Override
    public StreamFormat.Reader<double[]> createReader(Configuration config, FSDataInputStream stream)
            throws IOException {
        skipHeader(stream);
        return new Rows(stream, columns * rows, columns);
    }

    /** Moves to the first value: magic and version are eight bytes, then two bytes of length, then the header. */
    static void skipHeader(FSDataInputStream stream) throws IOException {
        byte[] begin = stream.readNBytes(10);
        stream.readNBytes((begin[8] & 0xff) | (begin[9] & 0xff) << 8);
    }

    @Override
    public TypeInformation<double[]> getProducedType() {
        return PrimitiveArrayTypeInfo.DOUBLE_PRIMITIVE_ARRAY_TYPE_INFO;
    }

    /** The records of one file; the last may have fewer rows. */
    private static class Rows implements StreamFormat.Reader<double[]> {
        private final FSDataInputStream stream;
        private final ByteBuffer buffer;
        private final int values;

        Rows(FSDataInputStream stream, int values, int columns) {
            this.stream = stream;
            this.values = values;
            int atOnce = Math.max(values, (1 << 17) / values * values);
            buffer = ByteBuffer.allocate(8 * atOnce).order(ByteOrder.LITTLE_ENDIAN).limit(0);
        }

        @Override
        public double[] read() throws IOException {
            if (!buffer.hasRemaining()) {
                int count = stream.readNBytes(buffer.array(), 0, buffer.capacity());
                if (count == 0) {
                    return null;
                }
                buffer.limit(count).position(0);
            }
            double[] record = new double[Math.min(values, buffer.remaining() / 8)];
            buffer.asDoubleBuffer().get(record);
            buffer.position(buffer.position() + 8 * record.length);
            return record;
        }

        @Override
        public void close() throws IOException {
            stream.close();
        }
    }
}
