import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/** Online logistic regression, source and training chained in one task: ROWS_PER_RECORD COLUMNS ITEMS WARM SIZE RATE FILE... */
public class Logistic {
    public static void main(String[] words) throws Exception {
        int rows = Integer.parseInt(words[0]);
        int columns = Integer.parseInt(words[1]);
        List<String> files = Arrays.asList(words).subList(6, words.length);
        Path[] paths = files.stream().map(Path::new).toArray(Path[]::new);

        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.setParallelism(1);
        env.getConfig().enableObjectReuse();
        FileSource<double[]> source =
                FileSource.forRecordStreamFormat(new NpyFormat(columns, rows), paths).build();
        Train train = new Train(columns, Long.parseLong(words[2]), Long.parseLong(words[3]),
                Integer.parseInt(words[4]), Double.parseDouble(words[5]));
        env.fromSource(source, WatermarkStrategy.noWatermarks(), "shards")
                .process(train)
                .sinkTo(new DiscardingSink<>());
        env.execute("logistic");
    }

    /** One step of gradient descent per micro-batch; says when the first items are behind it and when all are. */
    static class Train extends ProcessFunction<double[], Long> {
        private final int columns;
        private final long items;
        private final long warm;
        private final int microBatch;
        private final double rate;
        protected transient double[] weights;
        protected transient double[] gradient;
        protected long count;
        protected long epoch;

        Train(int columns, long items, long warm, int microBatch, double rate) {
            this.columns = columns;
            this.items = items;
            this.warm = warm;
            this.microBatch = microBatch;
            this.rate = rate;
        }

        @Override
        public void open(OpenContext context) {
            weights = new double[columns]; // the intercept first, in the place of the label
            gradient = new double[columns];
        }

        @Override
        public void processElement(double[] record, Context context, Collector<Long> out) {
            for (int row = 0; row < record.length; row += columns) {
                add(record, row);
                if (++count % microBatch == 0) {
                    step();
                    out.collect(++epoch);
                }
            }
        }

        private void add(double[] record, int row) {
            double margin = weights[0];
            for (int i = 1; i < columns; i++) {
                margin += weights[i] * record[row + i];
            }
            double residual = 1 / (1 + Math.exp(-margin)) - record[row];
            gradient[0] += residual;
            for (int i = 1; i < columns; i++) {
                gradient[i] += residual * record[row + i];
            }
        }

        private void step() {
            double step = rate / Math.sqrt(epoch + 1) / microBatch;
            for (int i = 0; i < columns; i++) {
                weights[i] -= step * gradient[i];
                gradient[i] = 0;
            }
            if (count == warm) {
                System.out.println("begin");
            } else if (count == warm + items) {
                System.out.println("end");
                System.out.println(Arrays.stream(weights).mapToObj(Double::toString)
                        .collect(Collectors.joining(" ", "weights ", "")));
            }
        }
    }
}
